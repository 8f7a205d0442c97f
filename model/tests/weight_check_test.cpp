#include "model/weight_check.h"

#include <gtest/gtest.h>

#include "formats/format.h"
#include "model/tests/edited_model.h"

namespace argon {
namespace {

using testing::EditedModel;

TEST(WeightCheck, SoundFilesPass) {
  EditedModel m;
  ThreadPool pool(2);
  uint64_t last = 0;
  const auto r = check_weights(*m.open(), pool, [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
    return true;
  });
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->bad.empty());
  EXPECT_EQ(r->skipped, 0u);
  EXPECT_EQ(r->bytes, m.open()->total_bytes());
  EXPECT_EQ(last, r->bytes);
}

TEST(WeightCheck, FindsScalesAndFloatsAndSaysWhere) {
  EditedModel m;
  testing::EditedTensor& q = m.tensor("blk.0.attn_qkv.weight");
  ASSERT_EQ(q.type, WeightType::kQ8_0);
  // Two blocks of row 3: the scale is the first half float of 34 bytes.
  const size_t row = static_cast<size_t>(q.dims[0]) / 32 * 34;
  for (const size_t block : {1, 2}) q.data.replace(3 * row + block * 34, 2, std::string("\x00\x7e", 2));
  testing::EditedTensor& f = m.tensor("output_hc_norm.weight");
  ASSERT_EQ(f.type, WeightType::kF32);
  f.data.replace(4 * 5, 4, std::string("\x00\x00\x80\x7f", 4));  // infinity
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const auto r = check_weights(*m.open(), pool);
    ASSERT_TRUE(r.ok());
    ASSERT_EQ(r->bad.size(), 2u);
    const auto of = [&](std::string_view name) {
      return *std::find_if(r->bad.begin(), r->bad.end(), [&](const BadTensor& b) { return b.name == name; });
    };
    EXPECT_EQ(of("blk.0.attn_qkv.weight").count, 2u);
    EXPECT_EQ(of("blk.0.attn_qkv.weight").row, 3);
    EXPECT_EQ(of("blk.0.attn_qkv.weight").column, 32);
    EXPECT_EQ(of("output_hc_norm.weight").count, 1u);
    EXPECT_EQ(of("output_hc_norm.weight").column, 5);
  }
}

TEST(WeightCheck, EveryTypeWithItsScalesDamaged) {
  ThreadPool pool(1);
  for (const WeightTypeInfo& info : kWeightTypes) {
    const FormatTraits* f = find_format(info.type);
    // No byte of a scale of these two is NaN or infinite.
    if (f == nullptr || info.type == WeightType::kMXFP4 || info.type == WeightType::kNVFP4) continue;
    GgufHeader header;
    const int64_t dims[] = {512};
    header.add_tensor("t", info.type, dims);
    std::string bytes = *header.encode();
    const size_t start = bytes.size();
    bytes.resize(start + header.data_bytes(), '\0');
    const auto sound = GgufFile::parse(std::as_bytes(std::span(bytes)), "t");
    ASSERT_TRUE(sound.ok());
    EXPECT_TRUE(check_weights(**sound, pool)->bad.empty()) << info.name;
    for (size_t i = start; i < start + header.tensors()[0].bytes; ++i) bytes[i] = '\xff';
    const auto damaged = GgufFile::parse(std::as_bytes(std::span(bytes)), "t");
    ASSERT_TRUE(damaged.ok());
    EXPECT_EQ(check_weights(**damaged, pool)->bad.size(), 1u) << info.name;
  }
}

TEST(WeightCheck, Stops) {
  EditedModel m;
  ThreadPool pool(1);
  const auto r = check_weights(*m.open(), pool, [](uint64_t, uint64_t) { return false; });
  EXPECT_EQ(r.status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace argon
