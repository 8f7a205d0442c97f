// Every float32 through each function and each narrowing, and hundreds of millions of fma triples. Several
// minutes on one core.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "base/exact_math.h"
#include "base/tests/exact_math_loops.h"
#include "base/tests/fma_cases.h"
#include "base/tests/half_check.h"
#include "base/tests/ulp_check.h"

namespace argon::testing {
namespace {

class EveryFloat : public ::testing::TestWithParam<MathFn> {};

TEST_P(EveryFloat, StaysWithinTheContractsUlps) {
  // The quicker of two loops that the short tests hold equal.
  const UlpReport r = check_words(GetParam(), has_avx2() ? loop_avx2 : loop_base, 0, 0xffffffffu, 1);
  std::printf("%s: at most %.4f ulp, at %a\n", name_of(GetParam()), r.worst, static_cast<double>(r.worst_at));
  EXPECT_LE(r.worst, bound_of(GetParam())) << "at " << r.worst_at;
  EXPECT_EQ(r.wrong, 0u) << "at " << r.wrong_at;
}

INSTANTIATE_TEST_SUITE_P(Fn, EveryFloat, ::testing::ValuesIn(kMathFns),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(ExactMathLong, FmaIsCorrectlyRounded) {
  FmaCases cases(2);
  float a[kLoopBlock], b[kLoopBlock], c[kLoopBlock], soft[kLoopBlock];
  for (int block = 0; block < 400000000 / kLoopBlock; ++block) {
    for (int i = 0; i < kLoopBlock; ++i) cases.next(a[i], b[i], c[i]);
    fma_loop_base(a, b, c, soft);
    for (int i = 0; i < kLoopBlock; ++i) {
      const float want = std::fmaf(a[i], b[i], c[i]);
      const bool same = f32_bits(soft[i]) == f32_bits(want) || (std::isnan(soft[i]) && std::isnan(want));
      ASSERT_TRUE(same) << a[i] << " * " << b[i] << " + " << c[i];
    }
  }
}

TEST(HalfLong, EveryFloatNarrowsToNearestEven) {
  float in[kLoopBlock];
  uint16_t f16[kLoopBlock], bf16[kLoopBlock];
  for (uint64_t u = 0; u < 0x100000000u; u += kLoopBlock) {
    for (uint32_t i = 0; i < kLoopBlock; ++i) in[i] = f32_from_bits(static_cast<uint32_t>(u) + i);
    (has_avx2() ? narrow_loop_avx2 : narrow_loop_base)(in, f16, bf16);
    for (int i = 0; i < kLoopBlock; ++i) {
      ASSERT_TRUE(narrows_to_f16(in[i], f16[i]) && narrows_to_bf16(in[i], bf16[i])) << in[i];
    }
  }
}

}  // namespace
}  // namespace argon::testing
