// exp, log, log1p and what follows from them, defined once for C++, CUDA and Metal (NUMERICS.md, ground
// rules).
//
// Built from fma, products, sums, one division and integer operations only, each rounded once to nearest
// even, without branches (selects), so loops over these functions vectorise and every processor gives the
// same bits.
//   exp32       within 1 ulp for -87.3f <= x <= 88.7228f; +0 below, +inf above
//   log32       within 1 ulp; log(+-0) = -inf, log(x < 0) = NaN
//   log1p32     within 1 ulp; log1p(-1) = -inf, log1p(x < -1) = NaN
//   sigmoid32   1/(1+exp(-x)), within 3 ulp where the result is normal
//   silu32      x*sigmoid(x), within 3.5 ulp where sigmoid is normal (x > -87.3365f; below it is -0)
//   softplus32  x > 20 ? x : log1p(exp(x)), within 3 ulp for x >= -87.3f
//   fma32       a*b+c rounded once
// Subnormal inputs and results count as zero of their sign: run under base/fp_env.h. NaN in gives NaN out
// (its payload is not promised). Measured over every float (exact_math_long_test): exp, log
// and log1p 0.90 ulp, sigmoid 2.49, silu 2.87, softplus 1.63.
//
// What each compiler must be told: no contraction, no reassociation, no fast math, correctly rounded
// division.
//   GCC, Clang  cmake/ExactMath.cmake
//   nvcc        --fmad=false --ftz=true --prec-div=true (the device code below spells its fma and division
//   out) Metal       math mode safe, where the specification promises correctly rounded + - * / and fma, and
//   in each file
//               `#pragma METAL fp contract(off)`, which this header repeats
// C++14 is enough (Metal). Functions live in ARGON_ISA_NS: base/isa_namespace.h says why.
#pragma once

#include "base/isa_namespace.h"

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
#pragma METAL fp contract(off)
#else
#include <cstdint>
#endif

#if defined(__CUDACC__)
#define ARGON_MATH_FN __host__ __device__ inline
#else
#define ARGON_MATH_FN inline
#endif

namespace argon {
inline namespace ARGON_ISA_NS {

ARGON_MATH_FN uint32_t f32_bits(float x) {
#if defined(__METAL_VERSION__)
  using namespace metal;
  return as_type<uint32_t>(x);
#elif defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(uint32_t, x);
#endif
}

ARGON_MATH_FN float f32_from_bits(uint32_t u) {
#if defined(__METAL_VERSION__)
  using namespace metal;
  return as_type<float>(u);
#elif defined(__CUDA_ARCH__)
  return __uint_as_float(u);
#else
  return __builtin_bit_cast(float, u);
#endif
}

#if !defined(__METAL_VERSION__) && !defined(__CUDA_ARCH__)
// a*b+c rounded once, for processors without the instruction. The product of two 24-bit significands is exact
// in double and far from its limits; the sum with c is rounded to odd there (its last bit stands for all that
// was lost), and with 53 >= 24+2 bits, narrowing such a value gives the correctly rounded result (Boldo and
// Melquiond, 2008).
inline float soft_fma32(float a, float b, float c) {
  const double p = static_cast<double>(a) * static_cast<double>(b);
  const double d = static_cast<double>(c);
  const double s = p + d;
  const double t = s - p;
  const double lost =
      (p - (s - t)) + (d - t);  // exactly what the sum lost (Knuth's two-sum); NaN when s is not finite
  const int64_t u = __builtin_bit_cast(int64_t, s);
  // An inexact even s moves one step to the odd neighbour on the side of `lost`.
  const int64_t inexact = static_cast<int64_t>(lost > 0.0) | static_cast<int64_t>(lost < 0.0);
  const int64_t inward = static_cast<int64_t>((lost < 0.0) != (s < 0.0));
  const int64_t step = inexact & ~u & 1;
  return static_cast<float>(__builtin_bit_cast(double, u + step * (1 - 2 * inward)));
}
#endif

ARGON_MATH_FN float fma32(float a, float b, float c) {
#if defined(__METAL_VERSION__)
  return metal::fma(a, b, c);
#elif defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#elif defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return soft_fma32(a, b, c);
#endif
}

ARGON_MATH_FN float div32(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

ARGON_MATH_FN float exp32(float x) {
  // x = n*ln2 + r, |r| <= 0.3467: n by rounding in the sum with 1.5*2^23, whose low bits then are n.
  const float shifter = 12582912.0f;
  const float shifted = fma32(x, 1.44269502f, shifter);
  const float n = shifted - shifter;
  // ln2 in two parts; the first has 15 bits, so n times it is exact and so is the difference.
  const float r = fma32(n, -1.42860677e-6f, fma32(n, -0.693145752f, x));
  // exp(r) = 1 + r*(1 + r*q), q minimax over |r| <= 0.3468 (relative error of exp 2^-28).
  float q = fma32(1.38144335e-3f, r, 8.36873055e-3f);
  q = fma32(q, r, 4.16683890e-2f);
  q = fma32(q, r, 0.166665211f);
  q = fma32(q, r, 0.499999940f);
  q = fma32(q, r, 1.0f);
  const float p = fma32(q, r, 1.0f);
  // Times 2^n in the exponent field; in range the result is normal.
  float y = f32_from_bits(f32_bits(p) + (f32_bits(shifted) << 23));
  y = x < -87.3f ? 0.0f : y;
  y = x > 88.7228f ? f32_from_bits(0x7f800000u) : y;
  return x != x ? x : y;
}

// e*ln2 + log(1+f) + tail for -0.25 <= f <= 0.5, e an integer, |tail| far below f.
ARGON_MATH_FN float log_core32(float e, float f, float tail) {
  // log(1+f) = f + f^2*(f*q - 1/2), q minimax over the range (relative error of the logarithm 2^-30).
  float q = fma32(3.76727059e-2f, f, -9.11619067e-2f);
  q = fma32(q, f, 0.117006548f);
  q = fma32(q, f, -0.127277792f);
  q = fma32(q, f, 0.142762393f);
  q = fma32(q, f, -0.166552961f);
  q = fma32(q, f, 0.199996054f);
  q = fma32(q, f, -0.250001639f);
  q = fma32(q, f, 0.333333403f);
  const float t = (f * f) * fma32(f, q, -0.5f);
  // ln2 in two parts; e times the first is exact. high = a+f with its rounding error kept.
  const float a = e * 0.693145752f;
  const float high = a + f;
  const float lost = f - (high - a);
  return high + (lost + (fma32(e, 1.42860677e-6f, t) + tail));
}

ARGON_MATH_FN float log32(float x) {
  const uint32_t u = f32_bits(x);
  // x = 2^e * (1+f), 0.75 <= 1+f < 1.5
  const int32_t e = static_cast<int32_t>(u - 0x3f400000u) >> 23;
  const float f = f32_from_bits(u - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  float y = log_core32(static_cast<float>(e), f, 0.0f);
  y = u >= 0x7f800000u ? f32_from_bits(0x7fc00000u) : y;                 // negative or NaN
  y = (u & 0x7fffffffu) < 0x00800000u ? f32_from_bits(0xff800000u) : y;  // zero
  return u == 0x7f800000u ? x : y;
}

ARGON_MATH_FN float log1p32(float x) {
  const uint32_t u = f32_bits(x);
  const float sum = 1.0f + x;
  const uint32_t v = f32_bits(sum);
  const int32_t e = static_cast<int32_t>(v - 0x3f400000u) >> 23;
  // 1+f = (1+x)/2^e is formed from x, not from the rounded sum: for e <= 24 as x/2^e + (1/2^e - 1), which is
  // exact or (large e) close enough; above, the sum is x itself.
  const float scale = f32_from_bits((127u - static_cast<uint32_t>(e)) << 23);
  const float near = fma32(x, scale, scale - 1.0f);
  const float far = f32_from_bits(v - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  float y = log_core32(static_cast<float>(e), e > 24 ? far : near, 0.0f);
  y = u > 0xbf800000u ? f32_from_bits(0x7fc00000u) : y;                      // below -1
  y = u == 0xbf800000u ? f32_from_bits(0xff800000u) : y;                     // -1
  y = (u & 0x7fffffffu) < 0x00800000u ? f32_from_bits(u & 0x80000000u) : y;  // zero of its sign
  return (u & 0x7fffffffu) > 0x7f800000u || u == 0x7f800000u ? x : y;
}

ARGON_MATH_FN float sigmoid32(float x) { return div32(1.0f, 1.0f + exp32(-x)); }

ARGON_MATH_FN float silu32(float x) { return x * sigmoid32(x); }

ARGON_MATH_FN float softplus32(float x) {
  const float y = log1p32(exp32(x));
  return x > 20.0f ? x : y;
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
