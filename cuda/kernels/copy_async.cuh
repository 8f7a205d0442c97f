// Copies from global to shared memory that the thread does not wait for.
#pragma once

#include "cuda/device.cuh"

namespace argon::cuda {

__device__ inline unsigned shared_at(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
// 4, 8 or 16 bytes, aligned so; nothing where not wanted.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from, bool wanted) {
  if constexpr (kBytes == 16) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(
                     shared_at(to)),
                 "l"(from), "r"(static_cast<int>(wanted)));
  } else {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(
                     shared_at(to)),
                 "l"(from), "r"(static_cast<int>(wanted)), "n"(kBytes));
  }
}

}  // namespace argon::cuda
