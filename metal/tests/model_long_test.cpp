// As model_test.cpp with prompts that span several passes, attention segments and selections of blocks.
#include "metal/tests/model_compare.h"

namespace argon::testing {
namespace {

TEST(MetalModelLong, TinyRandomF32) {
  compare_with_cpu(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, {300, {1, 37, 150, 299}, 8});
}
TEST(MetalModelLong, TinyRandomQ8) {
  compare_with_cpu(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, {300, {8, 64, 200}, 8});
}
TEST(MetalModelLong, ArgonTiny) { compare_with_cpu(tiny_model_path(), ops::KvType::kF16, {100, {17}, 8}); }
TEST(MetalModelLong, TinyRandomF32Checked) {
  compare_with_cpu(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, {150, {}, 2, true});
}
TEST(MetalModelLong, ArgonTinyChecked) {
  compare_with_cpu(tiny_model_path(), ops::KvType::kF16, {9, {}, 2, true});
}

}  // namespace
}  // namespace argon::testing
