// The contract's orders of summation (NUMERICS.md, "Sums"), for the scalar references. `static`, never merely
// inline: files compiled for different instruction sets each keep their own copy.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/exact_math.h"

namespace argon::ops {

// Adds lane j+s to lane j for s = 16, 8, 4, 2, 1; the result is lane 0. Overwrites v[0..31].
static inline float fold32(float* v) {
  for (int s = 16; s >= 1; s /= 2) {
    for (int j = 0; j < s; ++j) v[j] = v[j] + v[j + s];
  }
  return v[0];
}

// sum32 of a[i]*b[i], i < n: lane j takes j, j+32, ... in order with fma from +0, then fold32.
static inline float dot_sum32(const float* a, const float* b, int64_t n) {
  float lane[32] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % 32] = fma32(a[i], b[i], lane[i % 32]);
  return fold32(lane);
}

// sum256 of a[i]*b[i]: 256 lanes; each group of 32 is folded; the 8 totals are
// ((w0+w1)+(w2+w3))+((w4+w5)+(w6+w7)).
static inline float dot_sum256(const float* a, const float* b, int64_t n) {
  float lane[256] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % 256] = fma32(a[i], b[i], lane[i % 256]);
  float w[8];
  for (int g = 0; g < 8; ++g) w[g] = fold32(lane + 32 * g);
  return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}

// Norms and dots over vectors: sum256 from 512 values on, sum32 below.
static inline float dot(const float* a, const float* b, int64_t n) {
  return n >= 512 ? dot_sum256(a, b, n) : dot_sum32(a, b, n);
}

// y = (x*r)*w with r = 1/sqrt(sum of squares/n + eps); y may be x.
static inline void rms_norm_row(const float* x, const float* w, float* y, int64_t n, float eps) {
  const float r = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * w[i];
}

}  // namespace argon::ops
