// Which machine computes: the backends of this build, chosen by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ops/backend.h"
#include "ops/route.h"

namespace argon::app {

struct BackendChoice {
  std::string name = "auto";  // auto, cpu, cuda or metal
  int threads = 0;            // 0: the processors this process may use; half of them beside CUDA
  std::string isa;            // empty: the machine's best
  uint64_t gpu_memory = 0;    // bytes of a GPU's memory that may be taken; 0: what is free
};

// The threads and instruction set that the CPU backend takes for a choice. Errors as of make_backend.
struct CpuChoice {
  int threads;
  ops::Isa isa;
};
Result<CpuChoice> cpu_choice(const BackendChoice& choice);

// "auto, cpu, ..." of this build.
std::string backend_names();

// auto takes a CUDA device, else a Mac's GPU, else the CPU. A CUDA device and the CPU are one backend
// (tiers/tiered_backend.h), which keeps experts on the CPU where they do not fit the device. kBadInput for an
// unknown name or instruction set, and for GPU memory where no GPU computes; kUnsupported when this build or
// machine lacks what was asked for, saying how to get it; kResource when the GPU has less than asked for.
Result<std::unique_ptr<ops::Backend>> make_backend(const BackendChoice& choice);

// Where the experts of the loaded model are and what was computed there so far, in a line; empty when all are
// in one place.
std::string placement_line(const ops::Backend& backend);

}  // namespace argon::app
