// Vectors of 16 lanes for kernels that are written once for several instruction sets: AVX-512 here, NEON with
// four registers for each. The contract's 32 lanes are two of them, lanes 0-15 and 16-31.
#pragma once

#if defined(__aarch64__)
#include "cpu/kernels/wide_neon.h"
#else
#include "cpu/kernels/wide_avx512.h"
#endif

namespace argon::ops {
inline namespace ARGON_ISA_NS {

struct Lanes32 {
  Floats16 v[2];
};

inline Lanes32 zero_lanes() { return {{zero16(), zero16()}}; }

// fold32: lane j += lane j+s for s = 16, 8, 4, 2, 1.
inline float fold(const Lanes32& l) { return fold16(add16(l.v[0], l.v[1])); }

// Adds a[i]*b[i], i < n <= 31, to lane i.
template <class A, class B>
inline void add_tail(Lanes32& l, A a, B b, int64_t n) {
  alignas(64) float lane[32];
  store16(lane, l.v[0]);
  store16(lane + 16, l.v[1]);
  for (int64_t i = 0; i < n; ++i) lane[i] = fma32(a(i), b(i), lane[i]);
  l.v[0] = load16(lane);
  l.v[1] = load16(lane + 16);
}

// Lanes of a[i]*b[i] for i = 0, stride, 2*stride, ... and the 31 terms after each.
inline Lanes32 dot_lanes(const float* a, const float* b, int64_t n, int64_t stride) {
  Lanes32 l = zero_lanes();
  int64_t i = 0;
  for (; i + 32 <= n; i += stride) {
    l.v[0] = fma16(load16(a + i), load16(b + i), l.v[0]);
    l.v[1] = fma16(load16(a + i + 16), load16(b + i + 16), l.v[1]);
  }
  if (i < n)
    add_tail(
        l, [&](int64_t j) { return a[i + j]; }, [&](int64_t j) { return b[i + j]; }, n - i);
  return l;
}

inline float dot32(const float* a, const float* b, int64_t n) { return fold(dot_lanes(a, b, n, 32)); }

// sum256 of products: group g of 32 lanes takes terms 32g + 256i + (0..31).
inline float dot256(const float* a, const float* b, int64_t n) {
  float w[8];
  for (int64_t g = 0; g < 8; ++g) w[g] = fold(dot_lanes(a + 32 * g, b + 32 * g, n - 32 * g, 256));
  return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}

inline float vector_dot(const float* a, const float* b, int64_t n) {
  return n >= 512 ? dot256(a, b, n) : dot32(a, b, n);
}

// 1/sqrt(x), both correctly rounded.
inline float reciprocal_root(float x) { return 1.0f / root32(x); }

// y = (x*r)*w with r = 1/sqrt(ss/n + eps).
inline void rms_norm_row(const float* x, const float* w, float* y, int64_t n, float eps) {
  const float r = reciprocal_root(vector_dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * w[i];
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
