// How far a float32 function is from the double function of glibc, in units of the last place of the true
// result.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "base/exact_math.h"
#include "base/tests/exact_math_loops.h"

namespace argon::testing {

inline constexpr double kMinNormal = 1.17549435082228750797e-38;
inline constexpr double kMaxFloat = 3.40282346638528859812e+38;

inline const char* name_of(MathFn fn) {
  switch (fn) {
    case MathFn::kExp:
      return "exp";
    case MathFn::kLog:
      return "log";
    case MathFn::kLog1p:
      return "log1p";
    case MathFn::kSigmoid:
      return "sigmoid";
    case MathFn::kSilu:
      return "silu";
    case MathFn::kSoftplus:
      return "softplus";
  }
  return "?";
}

// The contract's bound (NUMERICS.md).
inline double bound_of(MathFn fn) {
  switch (fn) {
    case MathFn::kSigmoid:
      return 3.0;
    case MathFn::kSilu:
      return 3.5;
    case MathFn::kSoftplus:
      return 3.0;
    default:
      return 1.0;
  }
}

// The true value as the contract defines it: subnormal inputs are zero, and below -87.3 exp is zero.
inline double true_value(MathFn fn, float x) {
  if ((f32_bits(x) & 0x7fffffffu) < 0x00800000u) x = f32_from_bits(f32_bits(x) & 0x80000000u);
  const double d = x;
  switch (fn) {
    case MathFn::kExp:
      return x < -87.3f ? 0.0 : x > 88.7228f ? HUGE_VAL : std::exp(d);
    case MathFn::kLog:
      return std::log(d);
    case MathFn::kLog1p:
      return std::log1p(d);
    case MathFn::kSigmoid:
      return 1.0 / (1.0 + std::exp(-d));
    case MathFn::kSilu: {
      const double s = 1.0 / (1.0 + std::exp(-d));
      return s < kMinNormal && std::isfinite(x) ? -0.0 : d * s;
    }
    case MathFn::kSoftplus:
      return x < -87.3f ? 0.0 : x > 20.0f ? d : std::log1p(std::exp(d));
  }
  return 0.0;
}

inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

struct UlpReport {
  double worst = 0.0;  // over all results whose true value is normal
  float worst_at = 0.0f;
  uint64_t wrong = 0;  // special values that differ: NaN, infinity, zero
  float wrong_at = 0.0f;
};

inline void check_value(MathFn fn, float x, float y, UlpReport& report) {
  const double want = true_value(fn, x);
  const double size = std::fabs(want);
  bool special_ok = true;
  // Where sigmoid is within a few units of the smallest normal number it may fall to zero, and silu with it.
  if (fn == MathFn::kSilu && std::fabs((1.0 + std::exp(-static_cast<double>(x))) * kMinNormal - 1.0) < 4e-7)
    return;
  if (std::isnan(want)) {
    special_ok = std::isnan(y);
  } else if (size > kMaxFloat) {
    special_ok = static_cast<double>(y) == (want > 0 ? HUGE_VAL : -HUGE_VAL);
  } else if (size < kMinNormal) {
    special_ok = y == 0.0f || size > kMinNormal * (1 - 4e-7);
    special_ok = special_ok && (size != 0.0 || std::signbit(y) == std::signbit(want));
  } else if (y == 0.0f && size < kMinNormal * (1 + 4e-7)) {
    // Within a few units of the smallest normal number, a result may fall below it and count as zero.
  } else {
    int exponent;
    std::frexp(want, &exponent);
    const double ulps = std::fabs(static_cast<double>(y) - want) / std::ldexp(1.0, exponent - 24);
    if (!(ulps <= report.worst)) {
      report.worst = ulps;
      report.worst_at = x;
    }
  }
  if (!special_ok) {
    ++report.wrong;
    report.wrong_at = x;
  }
}

// Checks the float32 words first, first+stride, ... up to last, as `loop` computes them.
inline UlpReport check_words(MathFn fn, void (*loop)(MathFn, const float*, float*), uint64_t first,
                             uint64_t last, uint64_t stride) {
  UlpReport report;
  float in[kLoopBlock];
  float out[kLoopBlock];
  for (uint64_t u = first; u <= last;) {
    int n = 0;
    for (int i = 0; i < kLoopBlock; ++i) {
      in[i] = f32_from_bits(static_cast<uint32_t>(u <= last ? u : last));
      if (u <= last) n = i + 1;
      u += stride;
    }
    loop(fn, in, out);
    for (int i = 0; i < n; ++i) check_value(fn, in[i], out[i], report);
  }
  return report;
}

}  // namespace argon::testing
