#include "model/config.h"

#include <gtest/gtest.h>

#include "tests/harness/paths.h"

namespace argon {
namespace {

TEST(ModelConfig, ReadsTheBundledModel) {
  auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto config = ModelConfig::read(**file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->H, 256);
}

}  // namespace
}  // namespace argon
