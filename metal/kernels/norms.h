// Sums of squares, dots and the factors of norms (NUMERICS.md, "Operations").
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/sums.h"

inline float norm_factor(float ss, uint n, float eps) {
  return 1.0f / metal::precise::sqrt(ss / float(n) + eps);
}

inline float inverse_root(uint n) { return 1.0f / metal::precise::sqrt(float(n)); }

// The contract's dot of a and b by one simdgroup: sum32, from 512 values on sum256 with eight sums per lane.
// Every lane gets it; all must take part.
inline float simd_dot(device const float* a, device const float* b, uint n, uint lane) {
  if (n < 512) {
    float acc = 0.0f;
    for (uint i = lane; i < n; i += 32) acc = metal::fma(a[i], b[i], acc);
    return fold32(acc);
  }
  float part[8];
  for (uint g = 0; g < 8; ++g) {
    float acc = 0.0f;
    for (uint i = 32 * g + lane; i < n; i += 256) acc = metal::fma(a[i], b[i], acc);
    part[g] = fold32(acc);
  }
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

// The contract's sum by a threadgroup of 32 threads (sum32) or 256 (sum256) from each thread's own; every
// thread gets it. All must take part. `part` holds 8 values that nothing else uses before the next barrier.
inline float group_sum(float acc, threadgroup float* part, uint simdgroups, uint sg, uint lane) {
  const float w = fold32(acc);
  if (simdgroups == 1) return w;
  if (lane == 0) part[sg] = w;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return sum8(part);
}
