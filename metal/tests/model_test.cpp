#include "metal/tests/model_compare.h"

namespace argon::testing {
namespace {

TEST(MetalModel, TinyRandomF32) {
  compare_with_cpu(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, {40, {17}, 6});
}
TEST(MetalModel, TinyRandomQ8) {
  compare_with_cpu(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, {40, {5}, 6});
}
TEST(MetalModel, ArgonTiny) { compare_with_cpu(tiny_model_path(), ops::KvType::kF16, {12, {5}, 4}); }
TEST(MetalModel, TinyRandomF32Checked) {
  compare_with_cpu(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, {9, {}, 2, true});
}
TEST(MetalModel, TinyRandomQ8Checked) {
  compare_with_cpu(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, {9, {}, 2, true});
}

}  // namespace
}  // namespace argon::testing
