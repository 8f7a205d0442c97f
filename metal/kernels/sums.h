// The contract's sums (NUMERICS.md, "Sums") with Metal's shuffles.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

// Every lane gets what lane 0 of the contract's fold gets: the butterfly adds the same pairs, and a + b = b +
// a.
inline float fold32(float v) {
  v = v + metal::simd_shuffle_xor(v, 16);
  v = v + metal::simd_shuffle_xor(v, 8);
  v = v + metal::simd_shuffle_xor(v, 4);
  v = v + metal::simd_shuffle_xor(v, 2);
  v = v + metal::simd_shuffle_xor(v, 1);
  return v;
}

// The same of 32 lanes' values that one thread holds; overwrites them.
inline float fold32_of(thread float* v) {
#pragma clang loop unroll(full)
  for (uint s = 16; s >= 1; s /= 2) {
#pragma clang loop unroll(full)
    for (uint j = 0; j < s; ++j) v[j] = v[j] + v[j + s];
  }
  return v[0];
}

// The 8 folded totals of a sum256.
inline float sum8(threadgroup const float* part) {
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}
