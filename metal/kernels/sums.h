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

// The 8 folded totals of a sum256.
inline float sum8(threadgroup const float* part) {
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}
