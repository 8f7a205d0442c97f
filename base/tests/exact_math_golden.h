// The frozen bits of base/exact_math.h: checksums (base/tests/checksum.h) of each function over one sample.
#pragma once

#include <cstdint>

#include "base/exact_math.h"
#include "base/tests/exact_math_loops.h"

namespace argon::testing {

inline constexpr uint32_t kSampleSize = 1u << 21;

// The sample behind the goldens: 2^20 words spread over all of float32 and a million values in the useful
// range.
ARGON_MATH_FN float sample(uint32_t i) {
  if (i < (1u << 20)) return f32_from_bits(i * 2654435761u);
  const float x = static_cast<float>(static_cast<int32_t>((i - (1u << 20)) * 2654435761u)) * 0x1p-24f;
  return x;  // -128 .. 128
}

// The bits of the contract. A change of these is a change of the contract version.
inline uint64_t golden(MathFn fn) {
  switch (fn) {
    case MathFn::kExp:
      return 0xc2d2e8b10524cc80u;
    case MathFn::kLog:
      return 0x7723a01ac1c624a3u;
    case MathFn::kLog1p:
      return 0x960b191e6ac9097eu;
    case MathFn::kSigmoid:
      return 0x1daf0204b645254bu;
    case MathFn::kSilu:
      return 0x88388fffc1e95dcau;
    case MathFn::kSoftplus:
      return 0xad2ccb837cfce965u;
  }
  return 0;
}

}  // namespace argon::testing
