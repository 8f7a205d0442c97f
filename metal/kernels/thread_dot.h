// The contract's dots (NUMERICS.md, "Sums") by one thread, which holds all 32 lanes of a sum: no shuffles,
// and a loop over lanes that a CPU runs as vectors.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/sums.h"

// lane[j] takes the products i with i mod `step` = first + j, j < 32. B: a pointer to floats or halves.
template <class B>
inline void add_products(thread float* lane, device const float* a, B b, uint n, uint first, uint step) {
  uint i = first;
  for (; i + 32 <= n; i += step) {
#pragma clang loop unroll(full)
    for (uint j = 0; j < 32; ++j) lane[j] = metal::fma(a[i + j], float(b[i + j]), lane[j]);
  }
  if (i >= n) return;
#pragma clang loop unroll(full)
  for (uint j = 0; j < 32; ++j) {
    if (i + j < n) lane[j] = metal::fma(a[i + j], float(b[i + j]), lane[j]);
  }
}

// sum32, from 512 values on sum256.
template <class B>
inline float thread_dot(device const float* a, B b, uint n) {
  float w[8];
  const uint groups = n < 512 ? 1 : 8;
  for (uint g = 0; g < groups; ++g) {
    float lane[32];
#pragma clang loop unroll(full)
    for (uint j = 0; j < 32; ++j) lane[j] = 0.0f;
    add_products(lane, a, b, n, 32 * g, 32 * groups);
    w[g] = fold32_of(lane);
  }
  return groups == 1 ? w[0] : ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}
