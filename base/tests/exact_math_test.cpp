#include "base/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/tests/checksum.h"
#include "base/tests/exact_math_golden.h"
#include "base/tests/exact_math_loops.h"
#include "base/tests/fma_cases.h"
#include "base/tests/ulp_check.h"

namespace argon::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t checksum(MathFn fn, void (*loop)(MathFn, const float*, float*)) {
  uint64_t sum = 0;
  float in[kLoopBlock];
  float out[kLoopBlock];
  for (uint32_t i = 0; i < kSampleSize; i += kLoopBlock) {
    for (uint32_t j = 0; j < kLoopBlock; ++j) in[j] = sample(i + j);
    loop(fn, in, out);
    for (uint32_t j = 0; j < kLoopBlock; ++j) sum += mixed(i + j, f32_bits(out[j]));
  }
  return sum;
}

TEST(ExactMath, SoftwareFmaGivesTheGoldenBits) {
  for (MathFn fn : kMathFns) EXPECT_EQ(checksum(fn, loop_base), golden(fn)) << name_of(fn);
}

TEST(ExactMath, VectorisedFmaGivesTheGoldenBits) {
  if (!has_avx2()) GTEST_SKIP() << "this processor has no AVX2 with FMA";
  for (MathFn fn : kMathFns) EXPECT_EQ(checksum(fn, loop_avx2), golden(fn)) << name_of(fn);
}

TEST(ExactMath, ChecksumSeesOneFlippedBit) {
  const auto flipped = [](MathFn fn, const float* in, float* out) {
    loop_base(fn, in, out);
    if (in[0] == sample(512)) out[0] = f32_from_bits(f32_bits(out[0]) ^ 1u);
  };
  EXPECT_NE(checksum(MathFn::kSilu, flipped), golden(MathFn::kSilu));
}

TEST(ExactMath, StaysWithinTheContractsUlps) {
  for (MathFn fn : kMathFns) {
    const UlpReport r = check_words(fn, loop_base, 0, 0xffffffffu, 2003);
    EXPECT_LE(r.worst, bound_of(fn)) << name_of(fn) << " at " << r.worst_at;
    EXPECT_EQ(r.wrong, 0u) << name_of(fn) << " at " << r.wrong_at;
  }
}

TEST(ExactMath, UlpCheckSeesAWrongValue) {
  UlpReport r;
  check_value(MathFn::kExp, 1.0f, std::nextafter(std::nextafter(exp32(1.0f), 9.0f), 9.0f), r);
  EXPECT_GT(r.worst, 1.0);
  check_value(MathFn::kLog, -1.0f, 0.0f, r);
  EXPECT_EQ(r.wrong, 1u);
}

TEST(ExactMath, SpecialValues) {
  EXPECT_EQ(f32_bits(exp32(0.0f)), f32_bits(1.0f));
  EXPECT_EQ(f32_bits(exp32(-0.0f)), f32_bits(1.0f));
  EXPECT_EQ(exp32(kInf), kInf);
  EXPECT_EQ(f32_bits(exp32(-kInf)), 0u);
  EXPECT_GT(exp32(-87.3f), 0.0f);
  EXPECT_EQ(f32_bits(exp32(std::nextafter(-87.3f, -100.0f))), 0u);
  EXPECT_LT(exp32(88.7228f), kInf);
  EXPECT_EQ(exp32(std::nextafter(88.7228f, 100.0f)), kInf);
  EXPECT_EQ(f32_bits(log32(1.0f)), 0u);
  EXPECT_EQ(log32(0.0f), -kInf);
  EXPECT_EQ(log32(-0.0f), -kInf);
  EXPECT_EQ(log32(f32_from_bits(0x007fffffu)), -kInf);  // a subnormal counts as zero
  EXPECT_EQ(log32(f32_from_bits(0x807fffffu)), -kInf);
  EXPECT_EQ(log32(kInf), kInf);
  EXPECT_TRUE(std::isnan(log32(-1.0f)));
  EXPECT_TRUE(std::isnan(log32(-kInf)));
  EXPECT_EQ(f32_bits(log1p32(0.0f)), 0u);
  EXPECT_EQ(f32_bits(log1p32(-0.0f)), 0x80000000u);
  EXPECT_EQ(f32_bits(log1p32(f32_from_bits(0x807fffffu))), 0x80000000u);
  EXPECT_EQ(log1p32(-1.0f), -kInf);
  EXPECT_TRUE(std::isnan(log1p32(std::nextafter(-1.0f, -2.0f))));
  EXPECT_EQ(log1p32(kInf), kInf);
  EXPECT_EQ(f32_bits(sigmoid32(-0.0f)), f32_bits(0.5f));
  EXPECT_EQ(f32_bits(sigmoid32(kInf)), f32_bits(1.0f));
  EXPECT_EQ(f32_bits(sigmoid32(-kInf)), 0u);
  EXPECT_EQ(f32_bits(silu32(-0.0f)), 0x80000000u);
  EXPECT_EQ(f32_bits(softplus32(std::nextafter(20.0f, 30.0f))), f32_bits(std::nextafter(20.0f, 30.0f)));
  EXPECT_EQ(softplus32(kInf), kInf);
  float in[kLoopBlock];
  float out[kLoopBlock];
  for (MathFn fn : kMathFns) {
    for (float& x : in) x = kNan;
    loop_base(fn, in, out);
    EXPECT_TRUE(std::isnan(out[7])) << name_of(fn);
  }
}

TEST(ExactMath, FmaIsCorrectlyRounded) {
  FmaCases cases(1);
  float a[kLoopBlock], b[kLoopBlock], c[kLoopBlock], soft[kLoopBlock], fast[kLoopBlock];
  for (int block = 0; block < (1 << 22) / kLoopBlock; ++block) {
    for (int i = 0; i < kLoopBlock; ++i) cases.next(a[i], b[i], c[i]);
    fma_loop_base(a, b, c, soft);
    if (has_avx2()) fma_loop_avx2(a, b, c, fast);
    for (int i = 0; i < kLoopBlock; ++i) {
      const float want = std::fmaf(a[i], b[i], c[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(soft[i]));
        continue;
      }
      ASSERT_EQ(f32_bits(soft[i]), f32_bits(want)) << a[i] << " * " << b[i] << " + " << c[i];
      if (has_avx2()) {
        ASSERT_EQ(f32_bits(fast[i]), f32_bits(want));
      }
    }
  }
}

TEST(ExactMath, FmaCasesReachTheEdges) {
  FmaCases cases(1);
  int infinite = 0, zero = 0, subnormal = 0, tie = 0, cancelled = 0;
  for (int i = 0; i < 1000000; ++i) {
    float a, b, c;
    cases.next(a, b, c);
    const double p = static_cast<double>(a) * b;
    const double exact = p + c;
    infinite += std::isfinite(exact) && std::fabs(exact) > kMaxFloat;
    subnormal += exact != 0 && std::fabs(exact) < kMinNormal;
    zero += exact == 0;
    cancelled += std::fabs(exact) < std::fabs(p) * 1e-6;
    tie += (__builtin_bit_cast(uint64_t, exact) & 0x1fffffffu) == 0x10000000u;
  }
  EXPECT_GT(infinite, 1000);
  EXPECT_GT(subnormal, 1000);
  EXPECT_GT(zero, 1000);
  EXPECT_GT(cancelled, 1000);
  EXPECT_GT(tie, 1000);
}

}  // namespace
}  // namespace argon::testing
