// Synthetic models: they open, bind and come out the same every time.
#include "model/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "formats/format.h"
#include "gguf/tests/raw_file.h"
#include "model/weights.h"

namespace argon {
namespace {

SynthOptions small() {
  SynthOptions o;
  ModelConfig& c = o.config = synth_real_sizes(5);
  c.H = 256, c.R = 32, c.V = 300, c.E = 4, c.K = 2, c.F = 64, c.Fs = 32;
  c.hk = 1, c.hv = 3, c.D = 16, c.nq = 4, c.nkv = 2, c.dh = 32, c.rot = 8, c.ni = 2, c.di = 32, c.B = 32;
  c.rope_sections = {2, 1, 1, 0}, c.G = 4, c.W = 32;
  o.head_rows = 50;
  return o;
}

struct Opened {
  std::string bytes;
  std::unique_ptr<GgufFile> file;
  ModelConfig config;
  Weights weights;
};

void open(const SynthOptions& o, Opened* out) {
  auto bytes = synthetic_bytes(o);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  out->bytes = *bytes;
  auto file = GgufFile::parse(std::as_bytes(std::span(out->bytes)), "synthetic");
  ASSERT_TRUE(file.ok()) << file.status().message();
  out->file = std::move(file).value();
  auto config = ModelConfig::read(*out->file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  out->config = *config;
  auto weights = Weights::bind(*out->file, *config, [](WeightType) { return true; });
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  out->weights = std::move(weights).value();
}

TEST(Synth, SizesComeBack) {
  const SynthOptions o = small();
  Opened m;
  ASSERT_NO_FATAL_FAILURE(open(o, &m));
  const ModelConfig& a = o.config;
  const ModelConfig& b = m.config;
  for (const auto field : {&ModelConfig::context_length,
                           &ModelConfig::H,
                           &ModelConfig::L,
                           &ModelConfig::C,
                           &ModelConfig::R,
                           &ModelConfig::V,
                           &ModelConfig::E,
                           &ModelConfig::K,
                           &ModelConfig::F,
                           &ModelConfig::Fs,
                           &ModelConfig::hk,
                           &ModelConfig::hv,
                           &ModelConfig::D,
                           &ModelConfig::nq,
                           &ModelConfig::nkv,
                           &ModelConfig::dh,
                           &ModelConfig::rot,
                           &ModelConfig::ni,
                           &ModelConfig::di,
                           &ModelConfig::B,
                           &ModelConfig::r,
                           &ModelConfig::interval,
                           &ModelConfig::ple_layer,
                           &ModelConfig::ngram,
                           &ModelConfig::G,
                           &ModelConfig::W,
                           &ModelConfig::ple_taps}) {
    EXPECT_EQ(a.*field, b.*field);
  }
  EXPECT_EQ(b.eps, 1e-6f);
  EXPECT_EQ(b.rope_sections, a.rope_sections);
  EXPECT_EQ(b.head_sizes, (std::vector<uint64_t>{53, 59, 61, 67, 71, 73, 79, 83}));
  EXPECT_EQ(m.weights.table.rows % 128, 0);
  EXPECT_TRUE(m.weights.warnings.empty());
  EXPECT_EQ(m.weights.layers[0].gdn.a[0], -0.7f);
  EXPECT_EQ(m.weights.layers[3].attention.q_norm[5], 1.0f);
}

TEST(Synth, SameSeedSameBytes) {
  SynthOptions o = small();
  const auto a = synthetic_bytes(o);
  const auto b = synthetic_bytes(o);
  o.seed = 2;
  const auto c = synthetic_bytes(o);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_TRUE(*a == *b);
  EXPECT_EQ(a->size(), c->size());
  EXPECT_FALSE(*a == *c);
}

TEST(Synth, FileIsTheSameAsMemory) {
  const testing::TemporaryFolder folder;
  uint64_t last = 0;
  const Status s = write_synthetic(folder.file("m.gguf"), small(), [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
  });
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(testing::read_whole(folder.file("m.gguf")) == *synthetic_bytes(small()));
}

TEST(Synth, EveryTypeBindsAndVariantsToo) {
  int types = 0;
  for (const WeightTypeInfo& t : kWeightTypes) {
    SynthOptions o = small();
    o.config.F = 256;  // whole blocks of every type
    o.gate_up = o.down = o.dense = t.type;
    if (!can_fill(t.type)) {
      testing::expect_error(synthetic_bytes(o).status(), Code::kUnsupported, t.name, {"holds no weights"});
      continue;
    }
    ++types;
    o.table = 32 % t.block_length == 0 ? t.type : WeightType::kF32;
    o.fused_gate_up = types % 2 == 0;
    o.tied_output = types % 3 == 0;
    o.config.draft_blocks = types % 2;
    if (types % 5 == 0) o.config.ple_layer = -1;
    Opened m;
    ASSERT_NO_FATAL_FAILURE(open(o, &m)) << t.name;
    EXPECT_EQ(m.weights.layers[2].moe.up.first.type, t.type);
    EXPECT_EQ(m.weights.tied_output, o.tied_output);
    EXPECT_EQ(m.weights.drafts.size(), static_cast<size_t>(o.config.draft_blocks));
    EXPECT_TRUE(m.weights.warnings.empty()) << m.weights.warnings[0];
  }
  EXPECT_EQ(types, 28);
}

// Every type that the engine decodes: random codes, finite weights, the deviation that was asked for. MXFP4
// has only powers of two as scales, hence the wide bound.
TEST(Synth, DeviationIsAsAsked) {
  constexpr int64_t kValues = 256 * 400;
  int types = 0;
  for (const WeightTypeInfo& info : kWeightTypes) {
    const FormatTraits* format = find_format(info.type);
    if (format == nullptr) continue;
    ++types;
    for (double wanted : {0.02, 0.3}) {
      std::vector<std::byte> bytes(weight_row_bytes(info.type, kValues));
      fill_random(info.type, wanted, 3, bytes);
      std::vector<float> values(kValues);
      format->dequant_row(bytes.data(), kValues, values.data());
      double sum = 0;
      double squares = 0;
      for (float x : values) {
        sum += static_cast<double>(x);
        squares += static_cast<double>(x) * static_cast<double>(x);
      }
      const double mean = sum / kValues;
      const double found = std::sqrt(squares / kValues - mean * mean);
      EXPECT_NEAR(found / wanted, 1, info.type == WeightType::kMXFP4 ? 0.35 : 0.15) << info.name;
      EXPECT_LT(std::fabs(mean), 0.15 * wanted) << info.name;
    }
  }
  EXPECT_EQ(types, 25);
}

TEST(Synth, TokenizerIsAValidMergeTree) {
  for (int64_t V : {261, 262, 300, 5000, 248320}) {
    GgufHeader header;
    ASSERT_TRUE(add_synthetic_tokenizer(V, &header).ok());
    const auto bytes = header.encode();
    ASSERT_TRUE(bytes.ok());
    auto file = GgufFile::parse(std::as_bytes(std::span(*bytes)), "tokens");
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto tokens = *(*file)->get_strings("tokenizer.ggml.tokens");
    const auto merges = *(*file)->get_strings("tokenizer.ggml.merges");
    ASSERT_EQ(tokens.size(), static_cast<size_t>(V));
    ASSERT_EQ(merges.size(), static_cast<size_t>(V) - 261);
    EXPECT_EQ((*file)->find("tokenizer.ggml.token_type")->size(), static_cast<uint64_t>(V));
    std::set<std::string_view> known;
    for (size_t i = 0; i < 256; ++i) EXPECT_TRUE(known.insert(tokens[i]).second);
    // Merge i makes token 256 + i from two tokens that are there already.
    for (size_t i = 0; i < merges.size(); ++i) {
      const size_t space = merges[i].find(' ');
      ASSERT_NE(space, std::string_view::npos);
      const std::string left(merges[i].substr(0, space));
      const std::string right(merges[i].substr(space + 1));
      ASSERT_TRUE(known.contains(left) && known.contains(right)) << merges[i];
      ASSERT_EQ(left + right, tokens[256 + i]);
      ASSERT_TRUE(known.insert(tokens[256 + i]).second);
    }
    EXPECT_EQ(tokens[tokens.size() - 5], "<|endoftext|>");
    EXPECT_EQ(tokens[*(*file)->get_u32("tokenizer.ggml.eos_token_id")], "<|im_end|>");
  }
  GgufHeader header;
  testing::expect_error(add_synthetic_tokenizer(260, &header), Code::kBadInput,
                        "a byte-level vocabulary has 260 tokens", {"261"});
}

TEST(Synth, BadSizesAreRefused) {
  SynthOptions o = small();
  o.down = WeightType::kQ4_K;  // F = 64
  testing::expect_error(synthetic_bytes(o).status(), Code::kBadInput,
                        "GGUF tensor 'blk.0.ffn_down_exps.weight'", {"multiple of 256"});
  o = small();
  o.config.K = 5;
  testing::expect_error(synthetic_bytes(o).status(), Code::kBadInput, "synthetic model: key",
                        {"expert_used_count"});
  o = small();
  o.tokenizer = true;
  o.config.V = 100;
  testing::expect_error(synthetic_bytes(o).status(), Code::kBadInput, "a byte-level vocabulary", {});
}

}  // namespace
}  // namespace argon
