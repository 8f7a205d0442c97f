#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/tests/edited_model.h"
#include "tests/harness/paths.h"

namespace argon {
namespace {

using testing::EditedModel;
using testing::expect_error;

ModelConfig read_file(const std::string& path) {
  auto file = GgufFile::open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto config = ModelConfig::read(**file);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig();
}

TEST(ModelConfig, ReadsTheBundledModels) {
  const ModelConfig c = read_file(testing::tiny_model_path());
  EXPECT_EQ(c.name, "argon-tiny");
  EXPECT_EQ(c.context_length, 8192);
  const std::vector<int64_t> found = {c.H,   c.L,  c.C,  c.R, c.V,         c.E,       c.K,   c.F,
                                      c.Fs,  c.hk, c.hv, c.D, c.conv_taps, c.nq,      c.nkv, c.dh,
                                      c.rot, c.ni, c.di, c.B, c.r,         c.interval};
  EXPECT_EQ(found, (std::vector<int64_t>{256, 8, 4, 32, 4096, 16, 4, 128, 128,  2, 6,
                                         128, 4, 4, 2,  64,   16, 2, 64,  2048, 4, 4}));
  EXPECT_EQ(c.eps, 1e-6f);
  EXPECT_EQ(c.rope_base, 1e7f);
  EXPECT_EQ(c.rope_sections, (std::vector<int64_t>{3, 3, 2, 0}));
  EXPECT_EQ(c.ple_layer, 1);
  EXPECT_EQ(c.ngram, 3);
  EXPECT_EQ(c.G, 4);
  EXPECT_EQ(c.W, 32);
  EXPECT_EQ(c.ple_taps, 4);
  EXPECT_EQ(c.ple_eos, 4091);
  EXPECT_EQ(c.ple_image, -1);
  EXPECT_EQ(c.ple_width(), 256);
  EXPECT_EQ(c.table_rows, 63145 + 9049);
  EXPECT_EQ(c.multipliers, (std::vector<uint64_t>{2043359076095531, 1677619451946387, 1270917961443223}));
  EXPECT_EQ(c.head_offsets[7], 63145u);
  EXPECT_EQ(c.head_sizes[0], 9001u);
  EXPECT_EQ(c.draft_blocks, 0);
  EXPECT_TRUE(c.other_keys.empty());
  EXPECT_EQ(c.attention_layers(), 2);
  EXPECT_EQ(c.gdn_layers(), 6);
  EXPECT_FALSE(c.is_attention(0));
  EXPECT_TRUE(c.is_attention(7));
  const ModelConfig f32 = read_file(testing::fixture_path("tiny-random-F32.gguf"));
  EXPECT_EQ(f32.H, 128);
  EXPECT_EQ(f32.hk, 1);
  EXPECT_EQ(f32.B, 32);
}

// The real model: 12 attention layers of 2 heads x 256 and 36 GDN layers.
TEST(ModelConfig, StateBytes) {
  ModelConfig c;
  c.H = 2560, c.L = 48, c.C = 4, c.interval = 4;
  c.hk = 16, c.hv = 48, c.D = 128, c.conv_taps = 4;
  c.nkv = 2, c.dh = 256, c.di = 128;
  c.ple_layer = 1, c.ngram = 3, c.ple_taps = 4;
  const StateBytes s = state_bytes(c, 1000, ops::KvType::kF16);
  EXPECT_EQ(s.kv, 12u * 1000 * 2 * 512 * 2);
  EXPECT_EQ(s.indexer_keys, 12u * 1000 * 128 * 2);
  EXPECT_EQ(s.gdn_state, 36u * 48 * 128 * 128 * 4);
  EXPECT_EQ(s.gdn_conv, 36u * 3 * 10240 * 4);
  EXPECT_EQ(s.ple, 9u * 10240 * 4 + 2 * 4);
  EXPECT_EQ(s.total(), s.kv + s.indexer_keys + s.gdn_state + s.gdn_conv + s.ple);
  EXPECT_EQ(state_bytes(c, 1000, ops::KvType::kF32).kv, 2 * s.kv);
  EXPECT_EQ(state_bytes(c, 1000, ops::KvType::kF32).gdn_state, s.gdn_state);
  c.ple_layer = -1;
  EXPECT_EQ(state_bytes(c, 1000, ops::KvType::kF16).ple, 0u);
}

struct Case {
  const char* what;
  std::function<void(EditedModel&)> edit;
  std::initializer_list<std::string_view> words;
  Code code = Code::kBadInput;
};

using M = EditedModel;
const Case kCases[] = {
    {"no architecture",
     [](M& m) { m.remove("general.architecture"); },
     {"'general.architecture' is missing"}},
    {"other architecture",
     [](M& m) { m.set("general.architecture", GgufType::kString, testing::text("llama")); },
     {"'llama'", "'qwen4exp'"},
     Code::kUnsupported},
    {"no hidden size", [](M& m) { m.drop("embedding_length"); }, {"'qwen4exp.embedding_length' is missing"}},
    {"hidden size 0", [](M& m) { m.u32("embedding_length", 0); }, {"embedding_length' is 0", "1 to 65536"}},
    {"hidden size huge", [](M& m) { m.u32("embedding_length", 1u << 31); }, {"is 2147483648"}},
    {"hidden size a float",
     [](M& m) { m.f32("embedding_length", 128); },
     {"embedding_length'", "128 (f32)", "integer"}},
    {"hidden size negative", [](M& m) { m.i32("embedding_length", -5); }, {"is -5"}},
    {"too many streams",
     [](M& m) { m.u32("hyper_connection.count", 17); },
     {"hyper_connection.count' is 17"}},
    {"convolution too wide",
     [](M& m) {
       m.u32("ssm.time_step_rank", 1024);
       m.u32("ssm.state_size", 1024);
       m.u32("ssm.inner_size", 1u << 20);
     },
     {"GDN convolution", "at most 1048576"}},
    {"layers", [](M& m) { m.u32("block_count", 2000); }, {"block_count' is 2000"}},
    {"no attention layer",
     [](M& m) { m.u32("full_attention_interval", 5); },
     {"full_attention_interval' is 5", "4 layers"}},
    {"interval 0", [](M& m) { m.u32("full_attention_interval", 0); }, {"full_attention_interval' is 0"}},
    {"K above E",
     [](M& m) { m.u32("expert_used_count", 9); },
     {"expert_used_count' is 9", "expert_count' = 8"}},
    {"hv not a multiple",
     [](M& m) { m.u32("ssm.group_count", 2); },
     {"time_step_rank' is 3", "multiple of 'ssm.group_count' = 2"}},
    {"nq not a multiple",
     [](M& m) { m.u32("attention.head_count_kv", 3); },
     {"head_count' is 4", "multiple of 'attention.head_count_kv' = 3"}},
    {"inner size", [](M& m) { m.u32("ssm.inner_size", 385); }, {"inner_size' is 385", "wanted 384"}},
    {"value length", [](M& m) { m.u32("attention.value_length", 64); }, {"value_length' is 64", "wanted 32"}},
    {"D not in 8 parts",
     [](M& m) {
       m.u32("ssm.state_size", 12);
       m.u32("ssm.inner_size", 36);
     },
     {"state_size' is 12", "multiple of 8"},
     Code::kUnsupported},
    {"conv taps",
     [](M& m) { m.u32("ssm.conv_kernel", 3); },
     {"ssm.conv_kernel' is 3", "wanted 4"},
     Code::kUnsupported},
    {"ratios missing", [](M& m) { m.drop("attention.compress_ratios"); }, {"compress_ratios' is missing"}},
    {"ratios short",
     [](M& m) {
       m.i32s("attention.compress_ratios", {0, 0, 0});
     },
     {"compress_ratios' has 3 elements, wanted 4"}},
    {"ratio on a GDN layer",
     [](M& m) {
       m.i32s("attention.compress_ratios", {0, 4, 0, 4});
     },
     {"is 4 at layer 1, wanted 0"}},
    {"ratio 0 on attention",
     [](M& m) {
       m.i32s("attention.compress_ratios", {0, 0, 0, 0});
     },
     {"is 0 at attention layer 3"}},
    {"ratio negative",
     [](M& m) {
       m.i32s("attention.compress_ratios", {0, 0, 0, -4});
     },
     {"is -4 at attention layer 3"}},
    {"ratios a number",
     [](M& m) { m.u32("attention.compress_ratios", 4); },
     {"compress_ratios'", "array of integers"}},
    {"budget no multiple",
     [](M& m) { m.u32("attention.indexer.top_k", 30); },
     {"top_k' is 30", "multiple of"}},
    {"eps 0", [](M& m) { m.f32("attention.layer_norm_rms_epsilon", 0); }, {"layer_norm_rms_epsilon' is 0"}},
    {"eps NaN",
     [](M& m) { m.f32("attention.layer_norm_rms_epsilon", NAN); },
     {"layer_norm_rms_epsilon'", "finite"}},
    {"eps large", [](M& m) { m.f32("attention.layer_norm_rms_epsilon", 0.5f); }, {"is 0.5"}},
    {"rope base", [](M& m) { m.f32("rope.freq_base", 0.5f); }, {"freq_base' is 0.5"}},
    {"rot odd", [](M& m) { m.u32("rope.dimension_count", 7); }, {"dimension_count' is 7", "even"}},
    {"rot above dh", [](M& m) { m.u32("rope.dimension_count", 34); }, {"dimension_count' is 34"}},
    {"rot above di",
     [](M& m) { m.u32("attention.indexer.key_length", 4); },
     {"dimension_count' is 8", "4 (indexer)"}},
    {"sections sum",
     [](M& m) {
       m.i32s("rope.dimension_sections", {2, 2, 1, 0});
     },
     {"sums to 5, wanted 4"}},
    {"sections negative",
     [](M& m) {
       m.i32s("rope.dimension_sections", {-1, 4, 1, 0});
     },
     {"section of -1"}},
    {"sections many",
     [](M& m) {
       m.i32s("rope.dimension_sections", {1, 1, 1, 1, 0});
     },
     {"has 5 elements"}},
    {"scaling yarn",
     [](M& m) { m.string("rope.scaling.type", "yarn"); },
     {"'qwen4exp.rope.scaling.type' is 'yarn'"},
     Code::kUnsupported},
    {"scaling factor",
     [](M& m) { m.f32("rope.scaling.factor", 4); },
     {"'qwen4exp.rope.scaling.factor'"},
     Code::kUnsupported},
    {"scaling unknown",
     [](M& m) { m.u32("rope.scaling.new_thing", 1); },
     {"'qwen4exp.rope.scaling.new_thing'"},
     Code::kUnsupported},
    {"vocabulary", [](M& m) { m.u32("vocab_size", 1u << 25); }, {"vocab_size' is 33554432"}},
    {"more tokens than rows", [](M& m) { m.u32("vocab_size", 383); }, {"tokens' has 384", "383"}},
    {"draft blocks",
     [](M& m) { m.u32("nextn_predict_layers", 4); },
     {"nextn_predict_layers' is 4", "block_count' = 4"}},
    {"PLE without layers",
     [](M& m) { m.drop("ple.layers"); },
     {"'qwen4exp.ple.ngram_size'", "ple.layers' is missing"}},
    {"PLE layer", [](M& m) { m.i32s("ple.layers", {4}); }, {"names layer 4, wanted 0 to 3"}},
    {"PLE layer negative", [](M& m) { m.i32s("ple.layers", {-1}); }, {"names layer -1"}},
    {"two PLE layers",
     [](M& m) {
       m.i32s("ple.layers", {1, 2});
     },
     {"names 2 layers"},
     Code::kUnsupported},
    {"PLE n", [](M& m) { m.u32("ple.ngram_size", 1); }, {"ngram_size' is 1", "2 to 8"}},
    {"PLE n against tables",
     [](M& m) { m.u32("ple.ngram_size", 4); },
     {"layer_multipliers' has 3 elements, wanted 4"}},
    {"PLE heads against tables",
     [](M& m) { m.u32("ple.heads_per_ngram", 5); },
     {"head_offsets' has 8 elements, wanted 10"}},
    {"PLE end id", [](M& m) { m.u32("ple.eos_token_id", 384); }, {"eos_token_id' is 384", "0 to 383"}},
    {"PLE image id", [](M& m) { m.i32("ple.image_token_id", -1); }, {"image_token_id' is -1"}},
    {"PLE multiplier 0",
     [](M& m) {
       m.u64s("ple.layer_multipliers", {1, 0, 3});
     },
     {"layer_multipliers' is 0 at element 1"}},
    {"PLE multiplier negative",
     [](M& m) {
       m.i32s("ple.layer_multipliers", {1, -1, 3});
     },
     {"layer_multipliers'", "negative"}},
    {"PLE head size 0",
     [](M& m) {
       m.u64s("ple.head_vocab_sizes", {0, 1, 1, 1, 1, 1, 1, 1});
     },
     {"n-gram head 0", "at least one row"}},
    {"PLE head beyond",
     [](M& m) {
       m.u64s("ple.head_offsets", {0, 1, 1, 1, 1, 1, 1, uint64_t{1} << 31});
     },
     {"n-gram head 7"}},
    {"PLE head overflow",
     [](M& m) {
       m.u64s("ple.head_offsets", {UINT64_MAX, 1, 1, 1, 1, 1, 1, 1});
     },
     {"n-gram head 0"}},
};

TEST(ModelConfig, EachMistakeIsNamed) {
  const EditedModel base;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    EditedModel m = base.copy();
    m.tensors.clear();  // sizes are the metadata's business; without tensors the file is small
    c.edit(m);
    const GgufFile* file = m.open();
    ASSERT_NE(file, nullptr);
    expect_error(ModelConfig::read(*file).status(), c.code, "edited.gguf: ", c.words);
  }
}

TEST(ModelConfig, WhatIsAccepted) {
  const auto read = [&](const std::function<void(EditedModel&)>& edit) {
    EditedModel m;
    edit(m);
    auto config = ModelConfig::read(*m.open());
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config.ok() ? *config : ModelConfig();
  };
  read([](M& m) {
    m.string("rope.scaling.type", "none");
    m.f32("rope.scaling.factor", 1);
  });
  EXPECT_EQ(read([](M& m) { m.u32("something.new", 1); }).other_keys,
            std::vector<std::string>{"qwen4exp.something.new"});
  EXPECT_EQ(read([](M& m) { m.drop("vocab_size"); }).V, 384);
  EXPECT_EQ(read([](M& m) {
              m.drop("vocab_size");
              m.remove_tensor("token_embd.weight");
            }).V,
            384);
  EXPECT_TRUE(read([](M& m) { m.drop("rope.dimension_sections"); }).rope_sections.empty());
  EXPECT_EQ(read([](M& m) { m.u32("ple.image_token_id", 17); }).ple_image, 17);
  // The draft block is counted in block_count and has a ratio of its own, which may be 0.
  for (int32_t ratio : {0, 4}) {
    const ModelConfig c = read([&](M& m) {
      m.u32("nextn_predict_layers", 1);
      m.u32("block_count", 5);
      m.i32s("attention.compress_ratios", {0, 0, 0, 4, ratio});
    });
    EXPECT_EQ(c.L, 4);
    EXPECT_EQ(c.draft_blocks, 1);
  }
  // No n-gram module.
  const ModelConfig plain = read([](M& m) {
    std::erase_if(m.entries, [](const EditedModel::Entry& e) { return e.key.starts_with("qwen4exp.ple."); });
  });
  EXPECT_FALSE(plain.has_ple());
}

}  // namespace
}  // namespace argon
