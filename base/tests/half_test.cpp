#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/tests/exact_math_loops.h"
#include "base/tests/half_check.h"
#include "base/tests/ulp_check.h"

namespace argon::testing {
namespace {

// Sign, exponent and significand by arithmetic, not by moving bits.
double value_of(uint32_t code, int exponent_bits, int significand_bits) {
  const int exponent = static_cast<int>(code >> significand_bits) & ((1 << exponent_bits) - 1);
  const int significand = static_cast<int>(code) & ((1 << significand_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = code >> (exponent_bits + significand_bits) & 1 ? -1.0 : 1.0;
  const int whole = exponent == 0 ? significand : significand + (1 << significand_bits);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - bias - significand_bits);
}

TEST(Half, F16WidensExactly) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float got = f16_to_f32(static_cast<uint16_t>(code));
    const uint32_t payload = code & 0x3ffu;
    if ((code & 0x7c00u) == 0x7c00u) {
      const uint32_t special = payload == 0 ? 0x7f800000u : 0x7fc00000u | payload << 13;
      ASSERT_EQ(f32_bits(got), (code & 0x8000u) << 16 | special);
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), value_of(code, 5, 10)) << code;
    ASSERT_EQ(std::signbit(got), (code & 0x8000u) != 0);
    ASSERT_TRUE((code & 0x7fffu) == 0 || std::isnormal(got));
    ASSERT_EQ(f32_to_f16(got), code);
  }
}

TEST(Half, Bf16Widens) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    ASSERT_EQ(f32_bits(bf16_to_f32(static_cast<uint16_t>(code))), code << 16);
    const bool subnormal = (code & 0x7f80u) == 0;
    const bool nan = (code & 0x7fffu) > 0x7f80u;
    const uint32_t back = subnormal ? code & 0x8000u : nan ? code | 0x40u : code;
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(code))), back);
  }
}

TEST(Half, E4m3Widens) {
  for (uint32_t code = 0; code < 0x100; ++code) {
    const float got = e4m3_to_f32(static_cast<uint8_t>(code));
    if ((code & 0x7fu) == 0x7fu) {
      ASSERT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(static_cast<double>(got), value_of(code, 4, 3));
      ASSERT_EQ(std::signbit(got), code >= 0x80u);
    }
    const double scale = code == 0x7fu ? 0.0 : value_of(code & 0x7fu, 4, 3);
    ASSERT_EQ(static_cast<double>(ue4m3_to_f32(static_cast<uint8_t>(code))), scale);
  }
  EXPECT_EQ(e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(e4m3_to_f32(0x01), 0.001953125f);
}

// Every boundary between two neighbouring codes, the words next to it, and the range's ends.
TEST(Half, NarrowsToNearestEvenAtEveryBoundary) {
  for (uint32_t code = 0; code < 0x7f80u; ++code) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      if (code < 0x7c00u) {
        const uint32_t next =
            code + 1 == 0x7c00u ? f32_bits(65536.0f) : f32_bits(f16_to_f32(static_cast<uint16_t>(code + 1)));
        const float low = f16_to_f32(static_cast<uint16_t>(code));
        const uint32_t middle = f32_bits((low + f32_from_bits(next)) * 0.5f);
        for (uint32_t u : {middle - 1, middle, middle + 1, next - 1}) {
          const float x = f32_from_bits(u | sign);
          ASSERT_TRUE(narrows_to_f16(x, f32_to_f16(x))) << x;
        }
      }
      for (uint32_t low : {0x7fffu, 0x8000u, 0x8001u, 0xffffu, 1u}) {
        const float x = f32_from_bits(sign | code << 16 | low);
        ASSERT_TRUE(narrows_to_bf16(x, f32_to_bf16(x))) << x;
      }
    }
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bffu);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00u);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00u);
  EXPECT_EQ(f32_to_f16(f32_from_bits(0x7f800001u)), 0x7e00u);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0u);
  EXPECT_EQ(f32_to_f16(0x1.8p-24f), 2u);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80u);
  EXPECT_EQ(f32_to_bf16(f32_from_bits(0x807fffffu)), 0x8000u);
  EXPECT_FALSE(narrows_to_f16(1.0f, 0x3c01u));
  EXPECT_FALSE(narrows_to_bf16(1.0f, 0x3f81u));
}

TEST(Half, VectorisedLoopsGiveTheSameBits) {
  if (!has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  uint16_t codes[kLoopBlock], a16[kLoopBlock], b16[kLoopBlock], c16[kLoopBlock], d16[kLoopBlock];
  float in[kLoopBlock], a[kLoopBlock], b[kLoopBlock], c[kLoopBlock], d[kLoopBlock];
  for (uint32_t block = 0; block < 8192; ++block) {
    for (uint32_t i = 0; i < kLoopBlock; ++i) {
      codes[i] = static_cast<uint16_t>(block * kLoopBlock + i);
      in[i] = f32_from_bits((block * kLoopBlock + i) * 2654435761u);
    }
    widen_loop_base(codes, a, b);
    widen_loop_avx2(codes, c, d);
    ASSERT_EQ(std::memcmp(a, c, sizeof a), 0);
    ASSERT_EQ(std::memcmp(b, d, sizeof b), 0);
    narrow_loop_base(in, a16, b16);
    narrow_loop_avx2(in, c16, d16);
    ASSERT_EQ(std::memcmp(a16, c16, sizeof a16), 0);
    ASSERT_EQ(std::memcmp(b16, d16, sizeof b16), 0);
  }
}

}  // namespace
}  // namespace argon::testing
