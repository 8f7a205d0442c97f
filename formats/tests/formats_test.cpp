#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/tests/checksum.h"
#include "formats/format.h"
#include "formats/quantize.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {

// One file of tests/data/formats (its make.py says what is in it).
struct Vectors {
  uint32_t type = 0, block_values = 0, block_bytes = 0, blocks = 0, digest_blocks = 0;
  uint64_t digest = 0;
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

Vectors read_vectors(const std::string& name) {
  Vectors v;
  std::ifstream file(source_path("tests/data/formats/" + name + ".bin"), std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  if (all.size() < 32) return v;
  uint32_t head[6];
  std::memcpy(head, all.data(), sizeof head);
  std::memcpy(&v.digest, all.data() + 24, 8);
  v.type = head[0];
  v.block_values = head[1];
  v.block_bytes = head[2];
  v.digest_blocks = head[4];
  const size_t stored = static_cast<size_t>(head[3]) * v.block_bytes;
  const size_t values = static_cast<size_t>(head[3]) * v.block_values;
  if (all.size() != 32 + stored + 4 * values) return v;
  v.blocks = head[3];
  v.bytes.assign(all.begin() + 32, all.begin() + 32 + static_cast<std::ptrdiff_t>(stored));
  v.values.resize(values);
  std::memcpy(v.values.data(), all.data() + 32 + stored, 4 * values);
  return v;
}

std::vector<uint8_t> splitmix_bytes(uint64_t seed, size_t n) {
  std::vector<uint8_t> out(n + 8);
  for (size_t i = 0; i < n; i += 8) {
    uint64_t z = seed + (i / 8 + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    std::memcpy(out.data() + i, &z, 8);
  }
  out.resize(n);
  return out;
}

uint64_t digest_of(const std::vector<float>& values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += mixed(i, f32_bits(values[i]));
  return sum;
}

class Codec : public ::testing::TestWithParam<const char*> {};

// Every type's products are exact or round once, in the package as here, so the words are equal.
TEST_P(Codec, DecodesThePackagesVectors) {
  const Vectors v = read_vectors(GetParam());
  ASSERT_GT(v.blocks, 0u) << "tests/data/formats/" << GetParam() << ".bin is missing or cut short";
  const FormatTraits* f = find_format(static_cast<WeightType>(v.type));
  ASSERT_NE(f, nullptr);
  ASSERT_EQ(f->block_values, static_cast<int>(v.block_values));
  ASSERT_EQ(f->block_bytes, static_cast<int>(v.block_bytes));

  // One byte into a buffer: blocks need no alignment.
  std::vector<uint8_t> row(v.bytes.size() + 1);
  std::memcpy(row.data() + 1, v.bytes.data(), v.bytes.size());
  std::vector<float> got(v.values.size() + 1, -12345.0f);
  f->dequant_row(row.data() + 1, static_cast<int64_t>(v.values.size()), got.data());
  for (size_t i = 0; i < v.values.size(); ++i) {
    if (std::isnan(v.values[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(f32_bits(got[i]), f32_bits(v.values[i]))
        << "value " << i << ": " << got[i] << ", wanted " << v.values[i];
  }
  EXPECT_EQ(got.back(), -12345.0f);
}

TEST_P(Codec, DecodesManyRandomBlocks) {
  const Vectors v = read_vectors(GetParam());
  ASSERT_GT(v.blocks, 0u);
  const FormatTraits* f = find_format(static_cast<WeightType>(v.type));
  ASSERT_NE(f, nullptr);
  const std::vector<uint8_t> row =
      splitmix_bytes(v.type, static_cast<size_t>(v.digest_blocks) * v.block_bytes);
  std::vector<float> got(static_cast<size_t>(v.digest_blocks) * v.block_values);
  f->dequant_row(row.data(), static_cast<int64_t>(got.size()), got.data());
  EXPECT_EQ(digest_of(got), v.digest);
  got[77] = f32_from_bits(f32_bits(got[77]) ^ 1u);
  EXPECT_NE(digest_of(got), v.digest);
}

// What kernels use: codes and steps give the row's values, and their shape is what the traits say.
TEST_P(Codec, UnpacksToCodesAndSteps) {
  const Vectors v = read_vectors(GetParam());
  ASSERT_GT(v.blocks, 0u);
  const FormatTraits* f = find_format(static_cast<WeightType>(v.type));
  ASSERT_NE(f, nullptr);
  for (uint32_t block = 0; block < v.blocks; ++block) {
    for (int sub = 0; sub < f->block_values / 32; ++sub) {
      int8_t codes[33];
      codes[32] = 99;
      Steps s;
      f->unpack32(v.bytes.data() + block * v.block_bytes, sub, codes, &s);
      ASSERT_EQ(codes[32], 99);
      ASSERT_EQ(s.n, f->steps);
      ASSERT_EQ(s.has_min, f->has_min);
      for (int j = 0; j < 32; ++j) {
        const int step = s.n == 2 ? j / 16 : 0;
        const float code = static_cast<float>(codes[j]);
        const float got = s.has_min ? fma32(code, s.sw[step], -s.mw[step]) : code * s.sw[step];
        const float want = v.values[block * v.block_values + static_cast<size_t>(32 * sub + j)];
        if (std::isnan(want) && std::isnan(got)) continue;
        ASSERT_EQ(f32_bits(got), f32_bits(want));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Type, Codec,
                         ::testing::Values("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k",
                                           "q5_k", "q6_k", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s",
                                           "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "q2_0"),
                         [](const auto& p) { return std::string(p.param); });

TEST(Formats, FloatRowsWidenExactly) {
  const std::vector<uint8_t> bytes = splitmix_bytes(7, 4 * 1000 + 1);
  const uint8_t* row = bytes.data() + 1;
  std::vector<float> f32(1000), f16(2000), bf16(2000);
  find_format(WeightType::kF32)->dequant_row(row, 1000, f32.data());
  find_format(WeightType::kF16)->dequant_row(row, 2000, f16.data());
  find_format(WeightType::kBF16)->dequant_row(row, 2000, bf16.data());
  EXPECT_EQ(std::memcmp(f32.data(), row, 4000), 0);
  for (size_t i = 0; i < 2000; ++i) {
    const uint16_t code = static_cast<uint16_t>(row[2 * i] | row[2 * i + 1] << 8);
    ASSERT_EQ(f32_bits(f16[i]), f32_bits(f16_to_f32(code)));
    ASSERT_EQ(f32_bits(bf16[i]), static_cast<uint32_t>(code) << 16);
  }
}

TEST(Formats, TypesWithoutACodecHaveNoTraits) {
  for (WeightType t :
       {WeightType::kI8, WeightType::kI64, WeightType::kF64, WeightType::kTQ1_0, WeightType::kQ1_0}) {
    EXPECT_EQ(find_format(t), nullptr);
  }
}

TEST(Formats, QuantisersWriteThePackagesBlocks) {
  std::ifstream file(source_path("tests/data/formats/quantize.bin"), std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GE(all.size(), 8u);
  uint32_t n;
  std::memcpy(&n, all.data(), 4);
  ASSERT_EQ(all.size(), 8 + 4 * size_t{n} + n / 32 * 34 + n / 32 * 18);
  std::vector<float> x(n);
  std::memcpy(x.data(), all.data() + 8, 4 * size_t{n});
  std::vector<uint8_t> q8(n / 32 * 34), q4(n / 32 * 18);
  quantize_q8_0(x.data(), n, q8.data());
  quantize_q4_0(x.data(), n, q4.data());
  const char* want8 = all.data() + 8 + 4 * size_t{n};
  for (size_t i = 0; i < q8.size(); ++i)
    ASSERT_EQ(q8[i], static_cast<uint8_t>(want8[i])) << "Q8_0 block " << i / 34;
  const char* want4 = want8 + q8.size();
  for (size_t i = 0; i < q4.size(); ++i)
    ASSERT_EQ(q4[i], static_cast<uint8_t>(want4[i])) << "Q4_0 block " << i / 18;
}

}  // namespace
}  // namespace argon::testing
