#include "gguf/gguf.h"

#include <gtest/gtest.h>

#include "tests/harness/paths.h"

namespace argon {
namespace {

TEST(Gguf, ReadsTheBundledModel) {
  auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufFile& f = **file;
  EXPECT_EQ(f.version(), 3u);
  EXPECT_EQ(f.tensors().size(), 214u);
  EXPECT_EQ(f.metadata().size(), 53u);
}

}  // namespace
}  // namespace argon
