// What is said when the device has no memory left or cannot go on. Nothing of CUDA's, so that it is tested
// where there is none.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace argon::cuda {

inline std::string mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (uint64_t{1} << 20) - 1) >> 20) + " MiB";
}

struct DeviceMemory {
  uint64_t free = 0, total = 0;
};

// How much there is and which options help.
inline std::string memory_advice(const DeviceMemory& m) {
  return mebibytes(m.free) + " of " + mebibytes(m.total) +
         " are free; --gpu-memory SIZE leaves what is beyond it to the CPU, a smaller context (-c) or "
         "shorter passes (--pass) need less, --backend cpu needs none";
}

// An allocation of `wanted` bytes for `what` that was refused.
inline Status out_of_memory(uint64_t wanted, const std::string& what, const DeviceMemory& m) {
  return resource_error("cannot get " + mebibytes(wanted) + " of GPU memory for " + what + ": " +
                        memory_advice(m));
}

// An error that the device reported while `doing`, in its own words. Lost: nothing more can be computed there
// by this process.
inline Status device_error(const std::string& device, const std::string& doing, const std::string& words,
                           bool lost) {
  return internal_error(
      "CUDA device " + device + ", " + doing + ": " + words +
      (lost ? "; the device is lost to this process: start argon again, or use --backend cpu" : ""));
}

}  // namespace argon::cuda
