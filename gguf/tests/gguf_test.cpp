// Good files: every value type, the typed getters, the bundled models.
#include "gguf/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/tests/raw_file.h"
#include "gguf/text.h"
#include "tests/harness/paths.h"

namespace argon {
namespace {

using testing::array;
using testing::entry;
using testing::ExactBytes;
using testing::expect_error;
using testing::le;
using testing::RawFile;
using testing::RawTensor;
using testing::text;

std::unique_ptr<GgufFile> parse(const ExactBytes& bytes) {
  auto file = GgufFile::parse(bytes.span(), "mem.gguf");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::move(file).value() : nullptr;
}

RawFile every_type() {
  RawFile raw;
  raw.entries = {
      entry("u8", 0, le<uint8_t>(200)),
      entry("i8", 1, le<int8_t>(-100)),
      entry("u16", 2, le<uint16_t>(65000)),
      entry("i16", 3, le<int16_t>(-30000)),
      entry("u32", 4, le<uint32_t>(4000000000u)),
      entry("i32", 5, le<int32_t>(-2000000000)),
      entry("f32", 6, le(1.5f)),
      entry("yes", 7, le<uint8_t>(1)),
      entry("no", 7, le<uint8_t>(0)),
      entry("string", 8, text("h\xc3\xa9llo")),
      entry("empty", 8, text("")),
      entry("u64", 10, le<uint64_t>(UINT64_MAX)),
      entry("i64", 11, le<int64_t>(INT64_MIN)),
      entry("f64", 12, le(-0.1)),
      entry("i32s", 9, array(5, 3, le(7) + le(-8) + le(9))),
      entry("u64s", 9, array(10, 2, le<uint64_t>(1) + le<uint64_t>(UINT64_MAX))),
      entry("u8s", 9, array(0, 3, "abc")),
      entry("bools", 9, array(7, 2, std::string("\1\0", 2))),
      entry("strings", 9, array(8, 3, text("a") + text("") + text("bc"))),
      entry("nested", 9,
            array(9, 2,
                  array(3, 2, le<int16_t>(-1) + le<int16_t>(2)) + array(9, 1, array(8, 1, text("deep"))))),
      entry("nothing", 9, array(12, 0, "")),
      entry("nan", 6, le(std::numeric_limits<float>::quiet_NaN())),
      entry("huge", 12, le(1e300)),
  };
  raw.tensors = {RawTensor{.name = "second", .dims = {32, 2}, .type = 8, .offset = 64},
                 RawTensor{.name = "first", .dims = {3, 5}, .type = 0, .offset = 0}};
  raw.data_bytes = 64 + 68;
  return raw;
}

TEST(Gguf, EveryValueType) {
  const ExactBytes bytes(every_type().encode());
  const auto f = parse(bytes);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->metadata().size(), 23u);
  EXPECT_EQ(*f->get_u64("u8"), 200u);
  EXPECT_EQ(*f->get_i64("i8"), -100);
  EXPECT_EQ(*f->get_u64("u16"), 65000u);
  EXPECT_EQ(*f->get_i64("i16"), -30000);
  EXPECT_EQ(*f->get_u32("u32"), 4000000000u);
  EXPECT_EQ(*f->get_i64("i32"), -2000000000);
  EXPECT_EQ(*f->get_f32("f32"), 1.5f);
  EXPECT_EQ(*f->get_f64("f32"), 1.5);
  EXPECT_TRUE(*f->get_bool("yes"));
  EXPECT_FALSE(*f->get_bool("no"));
  EXPECT_EQ(*f->get_string("string"), "h\xc3\xa9llo");
  EXPECT_EQ(*f->get_string("empty"), "");
  EXPECT_EQ(*f->get_u64("u64"), UINT64_MAX);
  EXPECT_EQ(*f->get_i64("i64"), INT64_MIN);
  EXPECT_EQ(*f->get_f64("f64"), -0.1);
  EXPECT_EQ(*f->get_f32("f64"), -0.1f);
  EXPECT_EQ(*f->get_f64("u8"), 200.0);
  EXPECT_EQ(*f->get_i64s("i32s"), (std::vector<int64_t>{7, -8, 9}));
  EXPECT_EQ(*f->get_u64s("u64s"), (std::vector<uint64_t>{1, UINT64_MAX}));
  EXPECT_EQ(*f->get_u64s("u8s"), (std::vector<uint64_t>{'a', 'b', 'c'}));
  EXPECT_EQ(f->find("i32s")->element<int32_t>(1), -8);
  EXPECT_EQ(f->find("bools")->at(0).as_bool(), true);
  EXPECT_EQ(f->find("bools")->at(1).as_bool(), false);
  const auto strings = *f->get_strings("strings");
  ASSERT_EQ(strings.size(), 3u);
  EXPECT_EQ(strings[1], "");
  EXPECT_EQ(strings[2], "bc");
  const GgufValue* nested = f->find("nested");
  ASSERT_EQ(nested->size(), 2u);
  EXPECT_EQ(nested->at(0).at(0).as_i64(), -1);
  EXPECT_EQ(nested->arrays()[1].at(0).at(0).as_string(), "deep");
  EXPECT_EQ(f->find("nothing")->size(), 0u);
  EXPECT_EQ(f->find("absent"), nullptr);
}

TEST(Gguf, EncodedIsWhatTheFileHolds) {
  const RawFile raw = every_type();
  const ExactBytes bytes(raw.encode());
  const auto f = parse(bytes);
  ASSERT_NE(f, nullptr);
  for (size_t i = 0; i < raw.entries.size(); ++i) {
    const GgufEntry& e = f->metadata()[i];
    const auto enc = e.value.encoded();
    const std::string again = entry(e.key, static_cast<uint32_t>(e.value.type()),
                                    {reinterpret_cast<const char*>(enc.data()), enc.size()});
    EXPECT_EQ(again, raw.entries[i]) << e.key;
  }
  const auto inner = f->find("strings")->at(2).encoded();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(inner.data()), inner.size()), text("bc"));
}

TEST(Gguf, TensorsComeInDataOrder) {
  const ExactBytes bytes(every_type().encode());
  const auto f = parse(bytes);
  ASSERT_NE(f, nullptr);
  ASSERT_EQ(f->tensors().size(), 2u);
  EXPECT_EQ(f->tensors()[0].name, "first");
  const GgufTensor* t = f->find_tensor("second");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->type, WeightType::kQ8_0);
  EXPECT_EQ(t->n_dims, 2);
  EXPECT_EQ(t->dims, (std::array<int64_t, 4>{32, 2, 1, 1}));
  EXPECT_EQ(t->values(), 64);
  EXPECT_EQ(t->bytes, 68u);
  EXPECT_EQ(t->data + t->bytes, bytes.span().data() + bytes.span().size());
  EXPECT_EQ(t->file_offset, static_cast<uint64_t>(t->data - bytes.span().data()));
  EXPECT_EQ(f->total_bytes(), 60u + 68u);
  EXPECT_EQ(f->file_bytes(), bytes.span().size());
  EXPECT_EQ(f->find_tensor("third"), nullptr);
}

TEST(Gguf, Version2IsRead) {
  RawFile raw = every_type();
  raw.version = 2;
  const ExactBytes bytes(raw.encode());
  const auto f = parse(bytes);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->version(), 2u);
}

TEST(Gguf, AlignmentKeyMovesTheData) {
  for (uint64_t alignment : {1, 8, 64, 4096}) {
    RawFile raw = every_type();
    raw.alignment = alignment;
    raw.entries.push_back(testing::u32_entry("general.alignment", static_cast<uint32_t>(alignment)));
    raw.tensors[0].offset = alignment <= 64 ? 64 : 4096;
    raw.data_bytes = raw.tensors[0].offset + 68;
    const ExactBytes bytes(raw.encode());
    const auto f = parse(bytes);
    ASSERT_NE(f, nullptr);
    EXPECT_EQ(f->alignment(), alignment);
    EXPECT_EQ(f->find_tensor("first")->file_offset,
              (raw.header().size() + alignment - 1) / alignment * alignment);
  }
}

TEST(Gguf, GettersNameKeyFoundAndWanted) {
  const ExactBytes bytes(every_type().encode());
  const auto f = parse(bytes);
  ASSERT_NE(f, nullptr);
  const auto bad = [](const auto& result, std::initializer_list<std::string_view> words) {
    expect_error(result.status(), Code::kBadInput, "mem.gguf: key '", words);
  };
  bad(f->get_u32("absent"), {"'absent'", "missing", "integer"});
  bad(f->get_u32("u64"), {"'u64'", "18446744073709551615 (u64)", "2^32 - 1"});
  bad(f->get_u32("i8"), {"-100 (i8)"});
  bad(f->get_u64("i64"), {"-9223372036854775808"});
  bad(f->get_i64("u64"), {"below 2^63"});
  bad(f->get_u64("f32"), {"1.5 (f32)", "integer"});
  bad(f->get_u64("yes"), {"the bool true"});
  bad(f->get_u64("string"), {"the string 'h\\xc3\\xa9llo'"});
  bad(f->get_u64("i32s"), {"an array of 3 i32"});
  bad(f->get_f32("nan"), {"nan", "finite"});
  bad(f->get_f64("nan"), {"nan", "finite"});
  bad(f->get_f32("huge"), {"1e+300", "finite f32"});
  bad(f->get_f32("string"), {"finite"});
  bad(f->get_bool("u8"), {"200 (u8)", "a bool"});
  bad(f->get_string("u8"), {"a string"});
  bad(f->get_i64s("strings"), {"an array of 3 string", "integers"});
  bad(f->get_i64s("u64s"), {"element 1"});
  bad(f->get_u64s("i32s"), {"element 1 is negative"});
  bad(f->get_u64s("u8"), {"an array of integers"});
  bad(f->get_strings("i32s"), {"an array of strings"});
  bad(f->get_strings("absent"), {"missing"});
}

TEST(Gguf, TextFromFilesCannotBreakTheLine) {
  EXPECT_EQ(quote("a\nb\x1b[31m'\\"), "'a\\x0ab\\x1b[31m\\x27\\x5c'");
  EXPECT_EQ(quote(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(printable_path("a\nb/\xc3\xa9"), "a\\x0ab/\xc3\xa9");
}

TEST(Gguf, ReadsTheBundledModels) {
  auto tiny = GgufFile::open(testing::tiny_model_path());
  ASSERT_TRUE(tiny.ok()) << tiny.status().message();
  EXPECT_EQ((*tiny)->version(), 3u);
  EXPECT_EQ((*tiny)->parts(), 1);
  EXPECT_EQ((*tiny)->tensors().size(), 214u);
  EXPECT_EQ((*tiny)->metadata().size(), 53u);
  EXPECT_EQ(*(*tiny)->get_string("general.name"), "argon-tiny");
  EXPECT_EQ((*tiny)->get_strings("tokenizer.ggml.tokens")->size(), 4096u);
  EXPECT_TRUE((*tiny)->still_whole().ok());
  for (const char* name : {"tiny-random-F32.gguf", "tiny-random-Q8_0.gguf"}) {
    auto file = GgufFile::open(testing::fixture_path(name));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ((*file)->tensors().size(), 113u);
    EXPECT_EQ(*(*file)->get_u32("qwen4exp.block_count"), 4u);
  }
}

TEST(WeightTypes, IdsAndNames) {
  EXPECT_EQ(weight_type_by_id(12)->name, "Q4_K");
  EXPECT_EQ(weight_type_by_name("NVFP4")->type, WeightType::kNVFP4);
  EXPECT_FALSE(weight_type_by_name("q4_k").has_value());
  for (uint32_t id : {4u, 5u, 9u, 15u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u}) {
    EXPECT_FALSE(weight_type_by_id(id).has_value()) << id;
    EXPECT_NE(unknown_weight_type_text(id).find("type id " + std::to_string(id)), std::string::npos);
  }
  EXPECT_NE(unknown_weight_type_text(32).find("Q4_0_4_8, retired"), std::string::npos);
  EXPECT_NE(unknown_weight_type_text(99).find("unknown"), std::string::npos);
}

// Block sizes from what the blocks hold: scales and minima in bytes, then the bits of the codes.
TEST(WeightTypes, BlocksAddUp) {
  struct Layout {
    const char* name;
    int values, scale_bytes, code_bits;  // code bits per block
  };
  const Layout layouts[] = {
      {"F32", 1, 0, 32},
      {"F16", 1, 0, 16},
      {"BF16", 1, 0, 16},
      {"F64", 1, 0, 64},
      {"I8", 1, 0, 8},
      {"I16", 1, 0, 16},
      {"I32", 1, 0, 32},
      {"I64", 1, 0, 64},
      {"Q4_0", 32, 2, 32 * 4},
      {"Q4_1", 32, 4, 32 * 4},
      {"Q5_0", 32, 2, 32 * 5},
      {"Q5_1", 32, 4, 32 * 5},
      {"Q8_0", 32, 2, 32 * 8},
      {"Q2_K", 256, 4 + 16, 512},
      {"Q3_K", 256, 2 + 12, 768},
      {"Q4_K", 256, 4 + 12, 1024},
      {"Q5_K", 256, 4 + 12, 1280},
      {"Q6_K", 256, 2 + 16, 1536},
      {"IQ2_XXS", 256, 2, 512},
      {"IQ2_XS", 256, 2 + 8, 512},
      {"IQ2_S", 256, 2 + 8, 576},
      {"IQ3_XXS", 256, 2, 768},
      {"IQ3_S", 256, 2 + 4, 832},
      {"IQ1_S", 256, 2 + 16, 256},
      {"IQ1_M", 256, 8, 384},
      {"IQ4_NL", 32, 2, 32 * 4},
      {"IQ4_XS", 256, 2 + 2 + 4, 1024},
      {"TQ1_0", 256, 2, 416},
      {"TQ2_0", 256, 2, 512},
      {"MXFP4", 32, 1, 32 * 4},
      {"NVFP4", 64, 4, 64 * 4},
      {"Q1_0", 128, 2, 128},
      {"Q2_0", 64, 2, 128},
  };
  EXPECT_EQ(std::size(layouts), kWeightTypes.size());
  for (const Layout& l : layouts) {
    const auto info = weight_type_by_name(l.name);
    ASSERT_TRUE(info.has_value()) << l.name;
    EXPECT_EQ(info->block_length, l.values) << l.name;
    EXPECT_EQ(info->block_bytes * 8, l.scale_bytes * 8 + l.code_bits) << l.name;
    EXPECT_EQ(weight_row_bytes(info->type, 3 * l.values), static_cast<size_t>(3 * info->block_bytes))
        << l.name;
  }
}

}  // namespace
}  // namespace argon
