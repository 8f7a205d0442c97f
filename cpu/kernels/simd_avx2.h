// The contract's sums in AVX2: 32 lanes are four vectors, lanes 8v..8v+7 in vector v.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/exact_math.h"
#include "base/isa_namespace.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

struct Lanes32 {
  __m256 v[4];
};

inline Lanes32 zero_lanes() {
  const __m256 z = _mm256_setzero_ps();
  return {{z, z, z, z}};
}

// fold32: lane j += lane j+s for s = 16, 8, 4, 2, 1.
inline float fold(const Lanes32& l) {
  const __m256 eight = _mm256_add_ps(_mm256_add_ps(l.v[0], l.v[2]), _mm256_add_ps(l.v[1], l.v[3]));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

// sum32 of products; n >= 0.
inline float dot32(const float* a, const float* b, int64_t n) {
  Lanes32 l = zero_lanes();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int v = 0; v < 4; ++v) {
      l.v[v] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * v), _mm256_loadu_ps(b + i + 8 * v), l.v[v]);
    }
  }
  if (i == n) return fold(l);
  alignas(32) float lane[32];
  for (int v = 0; v < 4; ++v) _mm256_store_ps(lane + 8 * v, l.v[v]);
  for (int j = 0; i < n; ++i, ++j) lane[j] = fma32(a[i], b[i], lane[j]);
  for (int v = 0; v < 4; ++v) l.v[v] = _mm256_load_ps(lane + 8 * v);
  return fold(l);
}

// sum256 of products. Group g of 32 lanes takes terms 32g + 256i + (0..31).
inline float dot256(const float* a, const float* b, int64_t n) {
  float w[8];
  for (int g = 0; g < 8; ++g) {
    Lanes32 l = zero_lanes();
    int64_t i = 32 * g;
    for (; i + 32 <= n; i += 256) {
      for (int v = 0; v < 4; ++v) {
        l.v[v] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * v), _mm256_loadu_ps(b + i + 8 * v), l.v[v]);
      }
    }
    if (i < n) {
      alignas(32) float lane[32];
      for (int v = 0; v < 4; ++v) _mm256_store_ps(lane + 8 * v, l.v[v]);
      for (int j = 0; i < n; ++i, ++j) lane[j] = fma32(a[i], b[i], lane[j]);
      for (int v = 0; v < 4; ++v) l.v[v] = _mm256_load_ps(lane + 8 * v);
    }
    w[g] = fold(l);
  }
  return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}

inline float vector_dot(const float* a, const float* b, int64_t n) {
  return n >= 512 ? dot256(a, b, n) : dot32(a, b, n);
}

// 1/sqrt(x), both correctly rounded.
inline float reciprocal_root(float x) { return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// y = (x*r)*w with r = 1/sqrt(ss/n + eps).
inline void rms_norm_row(const float* x, const float* w, float* y, int64_t n, float eps) {
  const float r = reciprocal_root(vector_dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * w[i];
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
