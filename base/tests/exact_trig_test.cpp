#include "base/exact_trig.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/exact_math.h"
#include "base/tests/checksum.h"

namespace argon::testing {
namespace {

constexpr float kBases[] = {1e7f, 1e6f, 1e4f, 5e5f, 150000.0f};
constexpr int64_t kRots[] = {8, 16, 32, 64, 96, 128, 192, 256};

// long double has 64 bits on x86 and 113 on AArch64: an independent oracle for float64.
double ulps(double got, long double want) {
  int exponent;
  std::frexp(static_cast<double>(want), &exponent);
  return std::fabs(static_cast<double>(static_cast<long double>(got) - want)) /
         std::ldexp(1.0, exponent - 53);
}

void check_angle(double x, double& worst, int& wrong_f32) {
  const double got[2] = {exact_cos(x), exact_sin(x)};
  const long double want[2] = {std::cos(static_cast<long double>(x)), std::sin(static_cast<long double>(x))};
  for (int i = 0; i < 2; ++i) {
    if (std::fabs(want[i]) > 1e-5L) worst = std::fmax(worst, ulps(got[i], want[i]));
    wrong_f32 += static_cast<float>(got[i]) != static_cast<float>(want[i]);
  }
}

TEST(ExactTrig, ThetaIsCorrectlyRounded) {
  for (float base : kBases) {
    for (int64_t rot : kRots) {
      for (int64_t i = 0; i < rot / 2; ++i) {
        const long double want =
            std::pow(static_cast<long double>(base),
                     -2.0L * static_cast<long double>(i) / static_cast<long double>(rot));
        ASSERT_EQ(rope_theta(base, i, rot), static_cast<float>(want)) << base << ", " << i << " of " << rot;
      }
    }
  }
  EXPECT_EQ(rope_theta(1.0f, 3, 64), 1.0f);
  EXPECT_EQ(rope_theta(10000.0f, 16, 64), 0.01f);
}

TEST(ExactTrig, AnglesOfTheRotaryTable) {
  double worst = 0.0;
  int wrong = 0;
  for (float base : kBases) {
    for (int64_t i = 0; i < 32; ++i) {
      const double theta = static_cast<double>(rope_theta(base, i, 64));
      for (int64_t position = 0; position < 262144; position += position < 256 ? 1 : 397) {
        check_angle(static_cast<double>(position) * theta, worst, wrong);
      }
    }
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_EQ(wrong, 0);
}

TEST(ExactTrig, AnglesOfEverySizeAndNearMultiplesOfHalfPi) {
  double worst = 0.0;
  int wrong = 0;
  for (int k = 0; k < 200000; ++k) {
    check_angle(std::ldexp(1.0 + k * 3.1e-6, k % 53 - 30), worst, wrong);
    check_angle(-50.0 * k - 0.37, worst, wrong);
    check_angle(static_cast<double>(k * 31 * 1.57079632679489661923L), worst, wrong);
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_EQ(wrong, 0);
}

TEST(ExactTrig, SpecialValues) {
  EXPECT_EQ(exact_cos(0.0), 1.0);
  EXPECT_EQ(exact_sin(0.0), 0.0);
  const double inf = std::numeric_limits<double>::infinity();
  for (double x : {inf, -inf, 1.0001e7, -1.0001e7, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(exact_cos(x)));
    EXPECT_TRUE(std::isnan(exact_sin(x)));
  }
}

// The bits of the contract: every platform must give this sum. A change of it is a change of the contract
// version.
TEST(ExactTrig, GoldenBits) {
  uint64_t sum = 0;
  uint64_t index = 0;
  const auto add = [&](double v) {
    const uint64_t u = __builtin_bit_cast(uint64_t, v);
    sum += mixed(index++, static_cast<uint32_t>(u));
    sum += mixed(index++, static_cast<uint32_t>(u >> 32));
  };
  for (float base : kBases) {
    for (int64_t i = 0; i < 64; ++i) {
      const double theta = static_cast<double>(rope_theta(base, i, 128));
      add(theta);
      for (int64_t position = 0; position < 1048576; position += 1 + position / 3) {
        add(exact_cos(static_cast<double>(position) * theta));
        add(exact_sin(static_cast<double>(position) * theta));
      }
    }
  }
  EXPECT_EQ(sum, 8316607343186633613u);
}

}  // namespace
}  // namespace argon::testing
