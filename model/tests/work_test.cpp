#include "model/work.h"

#include <gtest/gtest.h>

#include "tests/harness/paths.h"

namespace argon {
namespace {

// argon-tiny: 16 experts of which a token takes 4, in 8 layers; n-gram rows of 32 values, 8 a token.
TEST(Work, GrowsWithThePassAsItsPartsDo) {
  const auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok());
  const auto config = ModelConfig::read(**file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  const Work one = pass_work(**file, *config, 1), two = pass_work(**file, *config, 2);
  const Work many = pass_work(**file, *config, 1000);
  const double experts = 8.0 * 3 * 16 * 128 * 256;
  // A second token meets 3/4 * 4 new experts of 16, one more embedding row, eight more rows of the table.
  EXPECT_DOUBLE_EQ(two.values - one.values, experts * (0.25 * 0.75) + 256 + 8 * 32);
  EXPECT_NEAR(many.values - one.values, experts * 0.75 + 999.0 * (256 + 8 * 32), 1.0);
  // Products: every token's but the output row's, which a pass has once.
  const double output = 4096.0 * 256;
  EXPECT_NEAR(two.multiply_adds - output, 2 * (one.multiply_adds - output), 1.0);
  EXPECT_NEAR(many.multiply_adds - output, 1000 * (one.multiply_adds - output), 1000.0);
  EXPECT_GT(one.bytes, one.values);  // Q8_0 takes 34 bytes for 32 values
}

}  // namespace
}  // namespace argon
