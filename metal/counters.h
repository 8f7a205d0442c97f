// What a Device counts (metal/device.h): work, and which bytes threadgroups touch.
#pragma once

#include <cstdint>

namespace argon::metal {

// Work since the last reset. A GPU counts time only; the executor counts barriers and simd operations always,
// the rest with checks on. A barrier counts once per threadgroup, a simd operation once per simdgroup.
struct Counters {
  uint64_t device_loads = 0, device_stores = 0, device_load_bytes = 0, device_store_bytes = 0;
  uint64_t threadgroup_loads = 0, threadgroup_stores = 0, atomics = 0;
  uint64_t barriers = 0, simd_operations = 0, threadgroups = 0;
  double gpu_seconds = 0;
};

// Distinct bytes of one watched buffer that windows of consecutive threadgroups touch: those that run at one
// time.
struct Locality {
  uint32_t window = 0;  // threadgroups per window
  uint64_t windows = 0;
  double mean_bytes = 0;  // per window
  uint64_t max_bytes = 0, sum_bytes = 0;
};

}  // namespace argon::metal
