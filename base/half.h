// Conversions between float32 and the narrow float formats, by integer operations, for C++, CUDA and Metal.
//
// Widening is exact; f16 subnormals become the normal float32 of the same value, also while the processor
// flushes subnormals. A bf16 subnormal widens to a float32 subnormal, which counts as zero when it is used.
// Narrowing rounds to nearest even; a float32 subnormal counts as zero of its sign. NaN stays NaN (made
// quiet, as F16C does), infinity stays. Results equal the x86 F16C instructions on every input (under DAZ).
// Functions live in ARGON_ISA_NS: base/isa_namespace.h.
#pragma once

#include "base/exact_math.h"

namespace argon {
inline namespace ARGON_ISA_NS {

ARGON_MATH_FN float f16_to_f32(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t m = h & 0x7fffu;
  const uint32_t normal = (m << 13) + (112u << 23);
  // Below 2^-14: m*2^-24 = (2^-14 + m*2^-24) - 2^-14, exact and without subnormals.
  const uint32_t small = f32_bits(f32_from_bits((113u << 23) + (m << 13)) - 6.10351562e-5f);
  const uint32_t special = 0x7f800000u | (m << 13) | (m > 0x7c00u ? 0x00400000u : 0u);
  uint32_t r = m < 0x0400u ? small : normal;
  r = m >= 0x7c00u ? special : r;
  return f32_from_bits(sign | r);
}

ARGON_MATH_FN uint16_t f32_to_f16(float x) {
  const uint32_t u = f32_bits(x);
  const uint32_t a = u & 0x7fffffffu;
  const uint32_t normal = (a - (112u << 23) + 0x0fffu + ((a >> 13) & 1u)) >> 13;
  // Below 2^-14 the sum with 0.5, whose unit is 2^-24, rounds to the unit of f16 subnormals.
  const uint32_t small = f32_bits(f32_from_bits(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
  uint32_t r = a < 0x38800000u ? small : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;  // 65520 and above
  r = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x03ffu) : r;
  return static_cast<uint16_t>(((u >> 16) & 0x8000u) | r);
}

ARGON_MATH_FN float bf16_to_f32(uint16_t h) { return f32_from_bits(static_cast<uint32_t>(h) << 16); }

ARGON_MATH_FN uint16_t f32_to_bf16(float x) {
  const uint32_t u = f32_bits(x);
  const uint32_t a = u & 0x7fffffffu;
  uint32_t r = (a + 0x7fffu + ((a >> 16) & 1u)) >> 16;
  r = a < 0x00800000u ? 0u : r;
  r = a > 0x7f800000u ? (a >> 16) | 0x0040u : r;
  return static_cast<uint16_t>(((u >> 16) & 0x8000u) | r);
}

// FP8 E4M3 (OCP "E4M3FN"): bias 7, no infinity, 0x7f and 0xff are NaN, largest value 448, smallest 2^-9.
ARGON_MATH_FN float e4m3_to_f32(uint8_t c) {
  const uint32_t sign = (c & 0x80u) << 24;
  const uint32_t m = c & 0x7fu;
  const uint32_t normal = (m << 20) + (120u << 23);
  const uint32_t small = f32_bits(f32_from_bits((121u << 23) + (m << 20)) - 0.015625f);
  uint32_t r = m < 0x08u ? small : normal;
  r = m == 0x7fu ? 0x7fc00000u : r;
  return f32_from_bits(sign | r);
}

// The scales of NVFP4: unsigned E4M3 whose codes 0 and 0x7f mean 0. The top bit is no part of the value (0xff
// is 480).
ARGON_MATH_FN float ue4m3_to_f32(uint8_t c) {
  const uint32_t m = c & 0x7fu;
  const uint32_t normal = (m << 20) + (120u << 23);
  const uint32_t small = f32_bits(f32_from_bits((121u << 23) + (m << 20)) - 0.015625f);
  const uint32_t r = m < 0x08u ? small : normal;
  return f32_from_bits(c == 0x7fu ? 0u : r);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
