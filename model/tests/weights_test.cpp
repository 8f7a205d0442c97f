#include "model/weights.h"

#include <gtest/gtest.h>

#include "tests/harness/paths.h"

namespace argon {
namespace {

TEST(Weights, BindsTheBundledModels) {
  for (const std::string& path : {testing::tiny_model_path(), testing::fixture_path("tiny-random-F32.gguf"),
                                  testing::fixture_path("tiny-random-Q8_0.gguf")}) {
    auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto config = ModelConfig::read(**file);
    ASSERT_TRUE(config.ok()) << config.status().message();
    auto weights = Weights::bind(**file, *config, [](WeightType) { return true; });
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    EXPECT_TRUE(weights->warnings.empty());
  }
}

}  // namespace
}  // namespace argon
