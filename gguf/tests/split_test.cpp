// Models in several files.
#include <gtest/gtest.h>

#include "gguf/gguf.h"
#include "gguf/tests/raw_file.h"
#include "gguf/writer.h"

namespace argon {
namespace {

using testing::expect_error;

struct PartSpec {
  int no, count, tensors_total;
  std::vector<std::string> tensors;
};

// Writes one part; each tensor is 32 f32, all bytes the first letter of its name.
void write_part(const std::string& path, const PartSpec& spec) {
  GgufHeader header;
  if (spec.no == 0) header.add_string("general.architecture", "split-test");
  header.add_u16("split.no", static_cast<uint16_t>(spec.no));
  header.add_u16("split.count", static_cast<uint16_t>(spec.count));
  header.add_i32("split.tensors.count", spec.tensors_total);
  const int64_t dims[] = {32};
  for (const std::string& t : spec.tensors) header.add_tensor(t, WeightType::kF32, dims);
  auto writer = GgufWriter::create(path, std::move(header));
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const std::string& t : spec.tensors) {
    const std::vector<std::byte> data(128, static_cast<std::byte>(t[0]));
    ASSERT_TRUE((*writer)->append(data).ok());
  }
  const Status s = (*writer)->finish();
  ASSERT_TRUE(s.ok()) << s.message();
}

class SplitGguf : public ::testing::Test {
 protected:
  std::string part(int i, int n = 3) const {
    char name[64];
    std::snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", i, n);
    return folder_.file(name);
  }
  // Three parts, the first with metadata only.
  void write_three() const {
    write_part(part(1), {0, 3, 3, {}});
    write_part(part(2), {1, 3, 3, {"b", "c"}});
    write_part(part(3), {2, 3, 3, {"a"}});
  }
  testing::TemporaryFolder folder_;
};

TEST_F(SplitGguf, AnyPartOpensTheWhole) {
  write_three();
  for (int i = 1; i <= 3; ++i) {
    int calls = 0;
    auto file = GgufFile::open(part(i), [&](int done, int total) {
      EXPECT_EQ(done, ++calls);
      EXPECT_EQ(total, 3);
    });
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(calls, 3);
    EXPECT_EQ((*file)->parts(), 3);
    EXPECT_EQ((*file)->part_path(2), part(3));
    EXPECT_EQ(*(*file)->get_string("general.architecture"), "split-test");
    ASSERT_EQ((*file)->tensors().size(), 3u);
    EXPECT_EQ((*file)->tensors()[0].name, "b");
    const GgufTensor* a = (*file)->find_tensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->part, 2);
    EXPECT_EQ(a->data[127], static_cast<std::byte>('a'));
    EXPECT_EQ((*file)->total_bytes(), 3u * 128u);
    EXPECT_EQ((*file)->file_bytes(),
              (*file)->part_bytes(0) + (*file)->part_bytes(1) + (*file)->part_bytes(2));
  }
}

TEST_F(SplitGguf, MissingPartIsNamed) {
  write_three();
  std::filesystem::remove(part(2));
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(2), {"no such file", "part 2 of 3"});
  expect_error(GgufFile::open(part(2)).status(), Code::kBadInput, part(2), {"no such file"});
}

TEST_F(SplitGguf, DamagedPartIsNamed) {
  write_three();
  testing::write_file(part(3), testing::read_whole(part(3)).substr(0, 150));
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(3), {"truncated"});
}

TEST_F(SplitGguf, SwappedParts) {
  write_three();
  std::filesystem::rename(part(2), folder_.file("x"));
  std::filesystem::rename(part(3), part(2));
  std::filesystem::rename(folder_.file("x"), part(3));
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(2),
               {"'split.no' is 2 (u16)", "wanted 1"});
}

TEST_F(SplitGguf, WrongCount) {
  write_three();
  write_part(part(2), {1, 4, 3, {"b", "c"}});
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(2),
               {"'split.count' is 4 (u16)", "wanted 3"});
}

TEST_F(SplitGguf, PartOfAnotherModel) {
  write_three();
  write_part(part(2), {1, 3, 7, {"b", "c"}});
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(2),
               {"'split.tensors.count' is 7", "wanted 3"});
  write_part(part(2), {1, 3, 3, {"b"}});
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(1),
               {"2 tensors in 3 parts", "wanted 3"});
  write_part(part(2), {1, 3, 3, {"b", "a"}});
  expect_error(GgufFile::open(part(1)).status(), Code::kBadInput, part(3), {"'a' is in part 2 too"});
}

TEST_F(SplitGguf, RenamedPart) {
  write_three();
  std::filesystem::rename(part(2), folder_.file("renamed.gguf"));
  expect_error(GgufFile::open(folder_.file("renamed.gguf")).status(), Code::kBadInput,
               folder_.file("renamed.gguf"), {"one of 3 parts", "names back"});
}

TEST_F(SplitGguf, WholeModelWithASplitName) {
  GgufHeader header;
  header.add_string("general.architecture", "whole");
  auto writer = GgufWriter::create(part(1, 2), std::move(header));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->finish().ok());
  expect_error(GgufFile::open(part(1, 2)).status(), Code::kBadInput, part(1, 2),
               {"no key 'split.count'", "rename"});
}

TEST_F(SplitGguf, OnePartOfOne) {
  write_part(part(1, 1), {0, 1, 1, {"a"}});
  EXPECT_TRUE(GgufFile::open(part(1, 1)).ok());
}

// Numbers that name no part are not a split name: 0 of 3, 4 of 3.
TEST_F(SplitGguf, OddNumbersAreAPlainName) {
  write_part(part(1, 1), {0, 1, 1, {"a"}});
  for (const std::string& odd : {part(0, 3), part(4, 3)}) {
    std::filesystem::copy_file(part(1, 1), odd);
    EXPECT_TRUE(GgufFile::open(odd).ok()) << odd;
  }
}

}  // namespace
}  // namespace argon
