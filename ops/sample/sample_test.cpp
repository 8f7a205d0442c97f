#include "ops/sample/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace argon::ops {
namespace {

SampleOptions warm() {
  SampleOptions o;
  o.temperature = 1.0f;
  return o;
}

int32_t draw(std::vector<float> logits, const SampleOptions& o, uint64_t position = 0,
             std::vector<int32_t> history = {}) {
  const auto id = sample(logits, history, position, 0, o);
  EXPECT_TRUE(id.has_value());
  return id.value_or(-1);
}

// How often each id comes in 4000 draws at positions 0, 1, ...
std::vector<int> counts(const std::vector<float>& logits, const SampleOptions& o) {
  std::vector<int> n(logits.size());
  for (uint64_t p = 0; p < 4000; ++p) ++n[static_cast<size_t>(draw(logits, o, p))];
  return n;
}

TEST(Sample, PhiloxGivesThePublishedWords) {
  EXPECT_EQ(philox64(0, 0, 0), 0xe169c58d6627e8d5u);  // Random123's known answers for zero key and counter
  EXPECT_NE(philox64(1, 0, 0), philox64(0, 0, 0));
  EXPECT_NE(philox64(0, 1, 0), philox64(0, 0, 0));
  EXPECT_NE(philox64(0, 0, 1), philox64(0, 0, 0));
}

TEST(Sample, GreedyTakesTheLargestAndTheLowerIdOfEquals) {
  EXPECT_EQ(draw({1.0f, 3.0f, 3.0f, -0.0f}, SampleOptions()), 1);
  EXPECT_EQ(draw({-0.0f, 0.0f}, SampleOptions()), 0);
}

TEST(Sample, DrawsFollowTheProbabilities) {
  const auto n = counts({std::log(0.5f), std::log(0.3f), std::log(0.2f)}, warm());
  EXPECT_NEAR(n[0], 2000, 150);
  EXPECT_NEAR(n[1], 1200, 150);
  EXPECT_NEAR(n[2], 800, 150);
}

TEST(Sample, CutsKeepWhatTheySay) {
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f), -40.0f};
  SampleOptions o = warm();
  EXPECT_EQ(counts(logits, o)[3], 0);  // p = 0 at 2^-40
  o.top_k = 1;
  EXPECT_EQ(counts(logits, o), (std::vector<int>{0, 4000, 0, 0}));
  o = warm();
  o.top_p = 0.6f;  // 0.5 is not enough, 0.5 + 0.3 is
  EXPECT_EQ(counts(logits, o)[0], 0);
  EXPECT_GT(counts(logits, o)[2], 0);
  o = warm();
  o.min_p = 0.5f;  // of the largest: 0.25 and more
  EXPECT_EQ(counts(logits, o)[0], 0);
  EXPECT_GT(counts(logits, o)[2], 0);
}

TEST(Sample, PenaltiesLookAtTheWindow) {
  SampleOptions o;
  o.repeat_penalty = 2.0f;
  EXPECT_EQ(draw({3.0f, 2.0f, -1.0f}, o, 0, {0}), 1);
  EXPECT_EQ(draw({-3.0f, -2.0f}, o, 0, {1}), 0);  // -2 becomes -4
  o.penalty_window = 1;
  EXPECT_EQ(draw({3.0f, 2.0f}, o, 0, {0, 1}), 0);
  o = SampleOptions();
  o.presence_penalty = 1.5f;
  EXPECT_EQ(draw({3.0f, 2.0f}, o, 0, {0, 0, 0}), 1);
}

TEST(Sample, NonFiniteLogitsGiveNothing) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> logits = {1.0f, bad};
    EXPECT_FALSE(ops::sample(logits, std::span<const int32_t>(), 0, 0, SampleOptions()).has_value());
  }
}

TEST(Sample, OptionsOutOfRangeAreNamed) {
  SampleOptions o;
  EXPECT_TRUE(check(o).ok());
  o.top_p = 0.0f;
  EXPECT_NE(check(o).message().find("top-p"), std::string::npos);
  o = SampleOptions();
  o.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(check(o).message().find("temperature"), std::string::npos);
}

}  // namespace
}  // namespace argon::ops
