// What the writer writes, and what it leaves behind when it does not finish.
#include "gguf/writer.h"

#include <gtest/gtest.h>

#include "gguf/gguf.h"
#include "gguf/tests/raw_file.h"
#include "tests/harness/paths.h"

namespace argon {
namespace {

using testing::expect_error;

GgufHeader small_header() {
  GgufHeader h;
  h.add_string("general.architecture", "w");
  const int64_t dims[] = {32, 3};
  h.add_tensor("q", WeightType::kQ8_0, dims);
  h.add_tensor("f", WeightType::kF32, std::span(dims).first(1));
  return h;
}

std::vector<std::byte> counting(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 7);
  return out;
}

// Reading the bundled model and writing it again gives the same bytes.
TEST(GgufWriter, RewritesABundledModelExactly) {
  auto file = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(file.ok());
  GgufHeader header;
  for (const GgufEntry& e : (*file)->metadata()) header.add_encoded(e.key, e.value.type(), e.value.encoded());
  for (const GgufTensor& t : (*file)->tensors()) {
    header.add_tensor(t.name, t.type, std::span(t.dims).first(static_cast<size_t>(t.n_dims)));
  }
  const testing::TemporaryFolder folder;
  auto writer = GgufWriter::create(folder.file("copy.gguf"), std::move(header));
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const GgufTensor& t : (*file)->tensors()) ASSERT_TRUE((*writer)->append({t.data, t.bytes}).ok());
  ASSERT_TRUE((*writer)->finish().ok());
  EXPECT_TRUE(testing::read_whole(folder.file("copy.gguf")) ==
              testing::read_whole(testing::tiny_model_path()));
  EXPECT_EQ(folder.count(), 1u);
}

TEST(GgufWriter, EveryValueTypeComesBack) {
  GgufHeader h;
  h.set_alignment(64);
  h.add_u8("u8", 255);
  h.add_u16("u16", 65535);
  h.add_u32("u32", UINT32_MAX);
  h.add_i32("i32", INT32_MIN);
  h.add_u64("u64", UINT64_MAX);
  h.add_i64("i64", INT64_MIN);
  h.add_f32("f32", 0.1f);
  h.add_f64("f64", 0.1);
  h.add_bool("bool", true);
  h.add_string("string", "text");
  h.add_i32s("i32s", std::vector<int32_t>{1, -2});
  h.add_u64s("u64s", std::vector<uint64_t>{UINT64_MAX});
  h.add_f32s("f32s", std::vector<float>{0.5f});
  h.add_strings("strings", std::vector<std::string>{"a", ""});
  const auto encoded = h.encode();
  ASSERT_TRUE(encoded.ok()) << encoded.status().message();
  EXPECT_EQ(encoded->size() % 64, 0u);
  auto f = GgufFile::parse(std::as_bytes(std::span(*encoded)), "mem");
  ASSERT_TRUE(f.ok()) << f.status().message();
  EXPECT_EQ((*f)->alignment(), 64u);
  EXPECT_EQ(*(*f)->get_u64("u8"), 255u);
  EXPECT_EQ(*(*f)->get_u64("u16"), 65535u);
  EXPECT_EQ(*(*f)->get_u32("u32"), UINT32_MAX);
  EXPECT_EQ(*(*f)->get_i64("i32"), INT32_MIN);
  EXPECT_EQ(*(*f)->get_u64("u64"), UINT64_MAX);
  EXPECT_EQ(*(*f)->get_i64("i64"), INT64_MIN);
  EXPECT_EQ(*(*f)->get_f32("f32"), 0.1f);
  EXPECT_EQ(*(*f)->get_f64("f64"), 0.1);
  EXPECT_TRUE(*(*f)->get_bool("bool"));
  EXPECT_EQ(*(*f)->get_string("string"), "text");
  EXPECT_EQ(*(*f)->get_i64s("i32s"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(*(*f)->get_u64s("u64s"), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ((*f)->find("f32s")->element<float>(0), 0.5f);
  EXPECT_EQ((*f)->get_strings("strings")->size(), 2u);
}

TEST(GgufWriter, BytesMayComeInAnyPieces) {
  const testing::TemporaryFolder folder;
  const std::vector<std::byte> data = counting(102 + 128);
  std::string first;
  for (size_t piece : {size_t{1}, size_t{7}, size_t{102}, size_t{230}}) {
    auto writer = GgufWriter::create(folder.file("m.gguf"), small_header());
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    EXPECT_EQ((*writer)->tensor_bytes_left(), 102u);
    for (size_t i = 0; i < data.size(); i += piece) {
      ASSERT_TRUE((*writer)->append(std::span(data).subspan(i, std::min(piece, data.size() - i))).ok());
    }
    EXPECT_EQ((*writer)->tensor(), 2u);
    ASSERT_TRUE((*writer)->finish().ok());
    const std::string bytes = testing::read_whole(folder.file("m.gguf"));
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << piece;
  }
  auto file = GgufFile::open(folder.file("m.gguf"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(std::memcmp((*file)->find_tensor("q")->data, data.data(), 102), 0);
  EXPECT_EQ(std::memcmp((*file)->find_tensor("f")->data, data.data() + 102, 128), 0);
}

// Also when every byte is there: only finish() may touch the target.
TEST(GgufWriter, NothingIsLeftWithoutFinish) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder.file("m.gguf"), "old");
  for (const size_t bytes : {size_t{200}, size_t{230}}) {
    auto writer = GgufWriter::create(folder.file("m.gguf"), small_header());
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->append(counting(bytes)).ok());
    EXPECT_EQ(testing::read_whole(folder.file("m.gguf")), "old");
  }
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(testing::read_whole(folder.file("m.gguf")), "old");
}

TEST(GgufWriter, TooFewAndTooManyBytes) {
  const testing::TemporaryFolder folder;
  auto writer = GgufWriter::create(folder.file("m.gguf"), small_header());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->append(counting(229)).ok());
  expect_error((*writer)->finish(), Code::kInternal, folder.file("m.gguf"), {"'f' lacks 1 bytes"});
  expect_error((*writer)->append(counting(2)), Code::kInternal, folder.file("m.gguf"), {"1 bytes too many"});
  EXPECT_TRUE((*writer)->finish().ok());
  expect_error((*writer)->finish(), Code::kInternal, folder.file("m.gguf"), {"finished already"});
}

TEST(GgufWriter, TargetsThatCannotBe) {
  const testing::TemporaryFolder folder;
  expect_error(GgufWriter::create(folder.file("no/m.gguf"), small_header()).status(), Code::kBadInput,
               folder.file("no/m.gguf"), {"create the folder"});
  expect_error(GgufWriter::create(folder.path(), small_header()).status(), Code::kBadInput, folder.path(),
               {"not a regular file"});
  expect_error(GgufWriter::create("/dev/full", small_header()).status(), Code::kBadInput, "/dev/full",
               {"not a regular file"});
}

TEST(GgufHeader, MistakesAreKept) {
  const int64_t row[] = {32};
  const int64_t odd[] = {33};
  const int64_t zero[] = {32, 0};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t large[] = {int64_t{1} << 61, 2};
  const int64_t five[] = {1, 1, 1, 1, 1};
  struct Case {
    std::function<void(GgufHeader&)> spoil;
    const char* word;
  };
  const Case cases[] = {
      {[](GgufHeader& h) { h.add_u32("general.architecture", 1); }, "'general.architecture' is added twice"},
      {[](GgufHeader& h) { h.add_u32("", 1); }, "key is empty"},
      {[&](GgufHeader& h) { h.add_tensor("q", WeightType::kF32, row); }, "'q' is added twice"},
      {[&](GgufHeader& h) { h.add_tensor("", WeightType::kF32, row); }, "name is empty"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kQ4_0, odd); }, "multiple of 32 for Q4_0"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kF32, zero); }, "dimension of 0"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kF32, huge); }, "below 2^63"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kF32, large); }, "2^62 bytes"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kF32, five); }, "5 dimensions"},
      {[&](GgufHeader& h) { h.add_tensor("x", WeightType::kF32, {}); }, "0 dimensions"},
      {[](GgufHeader& h) { h.set_alignment(33); }, "alignment 33"},
  };
  for (const Case& c : cases) {
    GgufHeader h = small_header();
    c.spoil(h);
    h.add_u32("later", 1);
    EXPECT_FALSE(h.encode().ok());
    EXPECT_NE(h.status().message().find(c.word), std::string::npos) << h.status().message();
  }
}

}  // namespace
}  // namespace argon
