// Bad files: each ends in one line that names what was found, what was wanted and what to do.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "gguf/gguf.h"
#include "gguf/tests/raw_file.h"

namespace argon {
namespace {

using testing::array;
using testing::entry;
using testing::ExactBytes;
using testing::expect_error;
using testing::le;
using testing::RawFile;
using testing::RawTensor;
using testing::string_entry;
using testing::text;
using testing::u32_entry;

RawFile good() {
  RawFile raw;
  raw.entries = {string_entry("general.architecture", "x"), u32_entry("n", 7),
                 entry("list", 9, array(8, 2, text("a") + text("bc"))),
                 entry("deep", 9, array(9, 1, array(4, 2, le(1) + le(2)))), entry("flag", 7, le<uint8_t>(1))};
  raw.tensors = {RawTensor{.name = "a", .dims = {8, 4}, .type = 0, .offset = 0},
                 RawTensor{.name = "b", .dims = {32, 2}, .type = 8, .offset = 128},
                 RawTensor{.name = "c", .dims = {2, 2, 2, 2}, .type = 1, .offset = 224}};
  raw.data_bytes = 224 + 32;
  return raw;
}

Status parse(std::string_view bytes) {
  const ExactBytes exact(bytes);
  return GgufFile::parse(exact.span(), "bad.gguf").status();
}

TEST(BadGguf, TheBaseIsGood) { EXPECT_TRUE(parse(good().encode()).ok()) << parse(good().encode()).message(); }

struct Case {
  const char* what;
  std::function<void(RawFile&)> spoil;
  std::initializer_list<std::string_view> words;
  Code code = Code::kBadInput;
};

std::string nest(int depth) {
  std::string out = array(4, 0, "");
  for (int i = 1; i < depth; ++i) out = array(9, 1, out);
  return out;
}

const Case kCases[] = {
    {"version 1", [](RawFile& r) { r.version = 1; }, {"version 1", "wanted 2 or 3"}, Code::kUnsupported},
    {"version 4", [](RawFile& r) { r.version = 4; }, {"version 4", "wanted 2 or 3"}, Code::kUnsupported},
    {"big-endian",
     [](RawFile& r) { r.version = 0x03000000; },
     {"big-endian", "little-endian"},
     Code::kUnsupported},
    {"too many tensors", [](RawFile& r) { r.tensor_count = 1000; }, {"announces 1000 tensors"}},
    {"tensors beyond all",
     [](RawFile& r) { r.tensor_count = UINT64_MAX - 1; },
     {"announces 18446744073709551614 tensors"}},
    {"too many keys", [](RawFile& r) { r.entry_count = 500; }, {"announces 500 metadata keys"}},
    {"one key too many", [](RawFile& r) { r.entry_count = 6; }, {"truncated or damaged"}},
    {"one tensor too many", [](RawFile& r) { r.tensor_count = 4; }, {"tensor 4 of 4"}},
    {"empty key",
     [](RawFile& r) { r.entries.push_back(u32_entry("", 1)); },
     {"metadata key 6 of 6", "empty"}},
    {"key twice", [](RawFile& r) { r.entries.push_back(u32_entry("n", 1)); }, {"key 'n'", "twice"}},
    {"key with a newline",
     [](RawFile& r) { r.entries.push_back(entry("k\n", 13, "")); },
     {"'k\\x0a'", "type 13", "0 to 12"}},
    {"key longer than the file",
     [](RawFile& r) { r.entries.push_back(le(uint64_t{1} << 40) + std::string(20, 'k')); },
     {"metadata key 6 of 6", "needs 1099511627776 bytes"}},
    {"string longer than the file",
     [](RawFile& r) { r.entries.push_back(entry("s", 8, le(UINT64_MAX) + "abc")); },
     {"key 's'", "18446744073709551615 bytes"}},
    {"array longer than the file",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, array(10, uint64_t{1} << 61, ""))); },
     {"key 'v'", "2305843009213693952 elements of type u64"}},
    {"array of strings longer",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, array(8, 100000, ""))); },
     {"key 'v'", "100000 elements of type string"}},
    {"array of arrays longer",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, array(9, 100000, ""))); },
     {"key 'v'", "100000 elements of type array"}},
    {"array of strings a little longer",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, array(8, 200, ""))); },
     {"key 'v'", "announces 200 elements of type string"}},
    {"array element type",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, array(99, 1, ""))); },
     {"key 'v'", "type 99"}},
    {"arrays too deep",
     [](RawFile& r) { r.entries.push_back(entry("v", 9, nest(9))); },
     {"key 'v'", "more than 8 deep"}},
    {"bool 2",
     [](RawFile& r) { r.entries.push_back(entry("flag2", 7, "\2")); },
     {"'flag2'", "value 2", "0 or 1"}},
    {"bool 7 in an array",
     [](RawFile& r) { r.entries.push_back(entry("flags", 9, array(7, 3, std::string("\0\1\7", 3)))); },
     {"'flags'", "value 7"}},
    {"alignment 0",
     [](RawFile& r) { r.entries.push_back(u32_entry("general.alignment", 0)); },
     {"'general.alignment' is 0", "power of two"}},
    {"alignment 24",
     [](RawFile& r) { r.entries.push_back(u32_entry("general.alignment", 24)); },
     {"is 24", "power of two"}},
    {"alignment 2^31",
     [](RawFile& r) { r.entries.push_back(u32_entry("general.alignment", 1u << 31)); },
     {"2147483648"}},
    {"alignment a string",
     [](RawFile& r) { r.entries.push_back(string_entry("general.alignment", "32")); },
     {"type string", "u32"}},
    {"empty tensor name", [](RawFile& r) { r.tensors[1].name = ""; }, {"tensor 2 of 3", "empty"}},
    {"tensor twice", [](RawFile& r) { r.tensors[1].name = "a"; }, {"tensor 'a'", "twice"}},
    {"0 dimensions", [](RawFile& r) { r.tensors[1].n_dims = 0; }, {"tensor 'b'", "0 dimensions", "1 to 4"}},
    {"5 dimensions", [](RawFile& r) { r.tensors[1].n_dims = 5; }, {"tensor 'b'", "5 dimensions"}},
    {"size 0", [](RawFile& r) { r.tensors[1].dims[1] = 0; }, {"tensor 'b'", "size 0 in dimension 1"}},
    {"size 2^63", [](RawFile& r) { r.tensors[1].dims[0] = uint64_t{1} << 63; }, {"tensor 'b'", "2^63"}},
    {"product overflows",
     [](RawFile& r) {
       r.tensors[2].dims = {1u << 16, 1u << 16, 1u << 16, 1u << 16};
     },
     {"tensor 'c'", "2^63"}},
    {"bytes overflow", [](RawFile& r) { r.tensors[0].dims = {uint64_t{1} << 62}; }, {"tensor 'a'"}},
    {"partial block",
     [](RawFile& r) { r.tensors[1].dims[0] = 33; },
     {"tensor 'b'", "rows of 33", "multiple of 32 for Q8_0"}},
    {"retired type",
     [](RawFile& r) { r.tensors[1].type = 31; },
     {"tensor 'b'", "type id 31 (Q4_0_4_4, retired)"},
     Code::kUnsupported},
    {"unknown type",
     [](RawFile& r) { r.tensors[1].type = 77; },
     {"tensor 'b'", "unknown type id 77"},
     Code::kUnsupported},
    {"offset not aligned",
     [](RawFile& r) { r.tensors[1].offset = 130; },
     {"tensor 'b'", "offset 130", "alignment 32"}},
    {"offset beyond the file",
     [](RawFile& r) { r.tensors[2].offset = 1 << 20; },
     {"tensor 'c'", "file ends at"}},
    {"offset overflows", [](RawFile& r) { r.tensors[2].offset = UINT64_MAX - 31; }, {"tensor 'c'"}},
    {"data too short", [](RawFile& r) { r.data_bytes -= 1; }, {"tensor 'c'", "file ends at"}},
    {"data missing", [](RawFile& r) { r.data_bytes = 0; }, {"tensor 'a'", "file ends at"}},
    {"overlap", [](RawFile& r) { r.tensors[1].offset = 96; }, {"'a' and 'b' overlap"}},
    {"same place", [](RawFile& r) { r.tensors[1].offset = 0; }, {"'a' and 'b' overlap"}},
    {"split without its name",
     [](RawFile& r) { r.entries.push_back(entry("split.count", 2, le<uint16_t>(3))); },
     {"one of 3 parts", "-of-00003.gguf"}},
    {"split count a string",
     [](RawFile& r) { r.entries.push_back(string_entry("split.count", "1")); },
     {"'split.count'", "wanted 1"}},
    {"split number",
     [](RawFile& r) { r.entries.push_back(entry("split.no", 2, le<uint16_t>(1))); },
     {"'split.no' is 1", "wanted 0"}},
    {"split tensors",
     [](RawFile& r) { r.entries.push_back(u32_entry("split.tensors.count", 4)); },
     {"3 tensors", "wanted 4"}},
};

TEST(BadGguf, EachMutationIsNamed) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    RawFile raw = good();
    c.spoil(raw);
    expect_error(parse(raw.encode()), c.code, "bad.gguf: ", c.words);
  }
}

TEST(BadGguf, OtherFilesAreRecognised) {
  struct Alien {
    std::string bytes;
    const char* word;
  };
  const std::string json = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const Alien aliens[] = {
      {le(uint64_t{json.size()}) + json + "0000", "safetensors"},
      {"PK\x03\x04rest of the archive", "zip"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs"},
      {"<!DOCTYPE html><html>", "web page"},
      {"\x1f\x8b\x08 compressed", "gzip"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6) +
           "compressed",
       "xz"},
      {"\x28\xb5\x2f\xfd compressed", "zstd"},
      {"tjgg\3\0\0\0", "before GGUF"},
      {"FUGG\0\0\0\3", "big-endian"},
      {"{\"model_type\": 1}", "JSON"},
      {"\nnot at all", "it starts with '\\x0anot'"},
      {"GGU", "needs 4 bytes"},
      {"X", "needs 4 bytes"},
  };
  for (const Alien& a : aliens) expect_error(parse(a.bytes), Code::kBadInput, "bad.gguf: ", {a.word});
}

TEST(BadGguf, TruncatedAtEveryByte) {
  const RawFile raw = good();
  const std::string bytes = raw.encode();
  ASSERT_TRUE(parse(bytes).ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    SCOPED_TRACE(n);
    expect_error(parse(std::string_view(bytes).substr(0, n)), Code::kBadInput,
                 "bad.gguf: ", {"truncated or damaged"});
    if (::testing::Test::HasFailure()) return;
  }
}

// No single wrong byte in the header may crash, hang, allocate wildly or give more than a line.
TEST(BadGguf, EveryByteFlipped) {
  const RawFile raw = good();
  const std::string bytes = raw.encode();
  const size_t header = raw.header().size();
  int refused = 0;
  for (size_t i = 0; i < header; ++i) {
    for (int flip : {0x01, 0x02, 0x80, 0xff}) {
      std::string bad = bytes;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const Status s = parse(bad);
      if (s.ok()) continue;
      ++refused;
      EXPECT_TRUE(s.code() == Code::kBadInput || s.code() == Code::kUnsupported);
      expect_error(s, s.code(), "bad.gguf: ", {});
    }
  }
  EXPECT_GT(refused, static_cast<int>(header));
}

TEST(BadGguf, PathsThatAreNoFiles) {
  const testing::TemporaryFolder folder;
  const auto open = [](const std::string& path) { return GgufFile::open(path).status(); };
  expect_error(open(folder.file("none.gguf")), Code::kBadInput, folder.file("none.gguf"), {"no such file"});
  expect_error(open(folder.path()), Code::kBadInput, folder.path(), {"is a directory"});
  expect_error(open("/dev/null"), Code::kBadInput, "/dev/null", {"not a regular file"});
  expect_error(open(""), Code::kBadInput, "the model path is empty", {});
  expect_error(open(folder.file("a\nb")), Code::kBadInput, folder.path(), {"a\\x0ab", "no such file"});
  expect_error(open(std::string("a\0b", 3)), Code::kBadInput, "the model path contains a zero byte", {});
  expect_error(open(folder.file(std::string(5000, 'x'))), Code::kBadInput, folder.path(), {"too long"});
  testing::write_file(folder.file("empty.gguf"), "");
  expect_error(open(folder.file("empty.gguf")), Code::kBadInput, folder.file("empty.gguf"), {"is empty"});
  expect_error(open(folder.file("empty.gguf/x")), Code::kBadInput, folder.file("empty.gguf/x"),
               {"not a directory"});
  ASSERT_EQ(mkfifo(folder.file("fifo").c_str(), 0600), 0);
  expect_error(open(folder.file("fifo")), Code::kBadInput, folder.file("fifo"), {"not a regular file"});
}

TEST(BadGguf, AChangedFileIsNoticed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("m.gguf");
  const std::string bytes = good().encode();
  testing::write_file(path, bytes);
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->still_whole().ok());
  testing::write_file(path, bytes.substr(0, 100));
  expect_error((*file)->still_whole(), Code::kBadInput, path, {"changed while in use"});
}

}  // namespace
}  // namespace argon
