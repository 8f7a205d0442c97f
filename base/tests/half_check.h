// What a float32 must narrow to, computed in float64 (the processor flushes float32 subnormals when it widens
// them).
#pragma once

#include <cmath>
#include <cstdint>

#include "base/half.h"

namespace argon::testing {

// x rounded to `bits` significant bits, nearest even, with the unit never below 2^min_unit.
inline double rounded(double x, int bits, int min_unit) {
  int exponent;
  std::frexp(x, &exponent);
  const int unit = exponent - bits > min_unit ? exponent - bits : min_unit;
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

inline bool narrows_to_f16(float x, uint16_t got) {
  if (std::isnan(x)) return (got & 0x7e00u) == 0x7e00u && (got >> 15 != 0) == std::signbit(x);
  const double r = std::isinf(x) ? static_cast<double>(x) : rounded(static_cast<double>(x), 11, -24);
  const double want = std::fabs(r) >= 65536.0 ? std::copysign(HUGE_VAL, r) : r;
  return static_cast<double>(f16_to_f32(got)) == want && (got >> 15 != 0) == std::signbit(x);
}

inline bool narrows_to_bf16(float x, uint16_t got) {
  if (std::isnan(x)) return (got & 0x7fc0u) == 0x7fc0u && (got >> 15 != 0) == std::signbit(x);
  const double r = std::isinf(x) ? static_cast<double>(x) : rounded(static_cast<double>(x), 8, -133);
  const double want = std::fabs(r) >= 0x1p128 ? std::copysign(HUGE_VAL, r) : r;
  return static_cast<double>(bf16_to_f32(got)) == want && (got >> 15 != 0) == std::signbit(x);
}

}  // namespace argon::testing
