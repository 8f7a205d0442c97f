#include "model/weights.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "model/tensor_specs.h"
#include "model/tests/edited_model.h"
#include "tests/harness/paths.h"

namespace argon {
namespace {

using testing::EditedModel;
using testing::EditedTensor;
using testing::expect_error;

bool any_type(WeightType) { return true; }

Result<Weights> bind(const GgufFile& file, const std::function<bool(WeightType)>& can_compute = any_type) {
  ARGON_ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::read(file));
  return Weights::bind(file, config, can_compute);
}

TEST(Weights, BindsTheBundledModels) {
  for (const std::string& path : {testing::tiny_model_path(), testing::fixture_path("tiny-random-F32.gguf"),
                                  testing::fixture_path("tiny-random-Q8_0.gguf")}) {
    auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto config = ModelConfig::read(**file);
    ASSERT_TRUE(config.ok()) << config.status().message();
    auto weights = bind(**file);
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    const Weights& w = *weights;
    EXPECT_TRUE(w.warnings.empty());
    EXPECT_TRUE(w.copies.empty());
    EXPECT_FALSE(w.tied_output);
    ASSERT_EQ(w.layers.size(), static_cast<size_t>(config->L));
    EXPECT_TRUE(w.drafts.empty());
    const auto at = [&](const std::string& name) { return (*file)->find_tensor(name)->data; };
    EXPECT_EQ(w.embed.data, at("token_embd.weight"));
    EXPECT_EQ(w.embed.rows, config->V);
    EXPECT_EQ(w.embed.cols, config->H);
    EXPECT_EQ(w.table.data, at("per_layer_token_embd.weight"));
    EXPECT_GE(w.table.rows, config->table_rows);
    EXPECT_EQ(w.head_mix.inject.data, nullptr);
    const LayerWeights& gdn = w.layers[0];
    EXPECT_EQ(gdn.gdn.qkv.rows, config->channels());
    EXPECT_EQ(static_cast<const void*>(gdn.gdn.a), at("blk.0.ssm_a"));
    EXPECT_EQ(gdn.attention.q.data, nullptr);
    EXPECT_EQ(gdn.ple.key.data, nullptr);
    EXPECT_EQ(gdn.moe.shared_router.rows, 1);
    EXPECT_EQ(gdn.moe.shared_router.cols, config->H);
    const LayerWeights& attention = w.layers[3];
    EXPECT_EQ(attention.attention.q.rows, 2 * config->nq * config->dh);
    EXPECT_EQ(attention.gdn.conv, nullptr);
    EXPECT_EQ(w.layers[1].ple.key.cols, config->ple_width());
    const ops::ExpertMatrix& down = attention.moe.down;
    EXPECT_EQ(down.experts, config->E);
    EXPECT_EQ(down.first.rows, config->H);
    EXPECT_EQ(down.first.cols, config->F);
    EXPECT_EQ(down.expert_bytes, down.first.row_bytes * static_cast<size_t>(config->H));
    EXPECT_EQ((*file)->find_tensor("blk.3.ffn_down_exps.weight")->bytes,
              down.expert_bytes * static_cast<size_t>(config->E));
  }
}

struct Case {
  const char* what;
  std::function<void(EditedModel&)> edit;
  std::initializer_list<std::string_view> words;
  Code code = Code::kBadInput;
};

using M = EditedModel;
const Case kCases[] = {
    {"unknown tensor",
     [](M& m) {
       m.tensors.push_back({"blk.0.new_thing.weight", WeightType::kF32, {4}, ""});
     },
     {"'blk.0.new_thing.weight' is not part"}},
    {"two unknown tensors",
     [](M& m) {
       m.tensors.push_back({"x", WeightType::kF32, {4}, ""});
       m.tensors.push_back({"y", WeightType::kF32, {4}, ""});
     },
     {"'x' (and 1 more)"}},
    {"block beyond the last",
     [](M& m) {
       m.tensors.push_back({"blk.4.attn_q.weight", WeightType::kF32, {4}, ""});
     },
     {"'blk.4.attn_q.weight'"}},
    {"attention name on a GDN layer",
     [](M& m) {
       m.tensors.push_back({"blk.0.attn_q.weight", WeightType::kF32, {128, 256}, ""});
     },
     {"'blk.0.attn_q.weight'"}},
    {"PLE name on another layer",
     [](M& m) {
       m.tensors.push_back({"blk.2.ple_value.weight", WeightType::kF32, {128, 128}, ""});
     },
     {"'blk.2.ple_value.weight'"}},
    {"inject on the head mixer",
     [](M& m) {
       m.tensors.push_back({"output_hc_inject.weight", WeightType::kF32, {512, 4}, ""});
     },
     {"'output_hc_inject.weight'"}},
    {"draft names without draft blocks",
     [](M& m) {
       m.tensors.push_back({"blk.3.nextn.enorm.weight", WeightType::kF32, {128}, ""});
     },
     {"'blk.3.nextn.enorm.weight'"}},
    {"wrong rows",
     [](M& m) { m.tensor("blk.0.attn_qkv.weight").dims[1] = 641; },
     {"'blk.0.attn_qkv.weight' is 641 x 128, wanted 640 x 128 ((2*hk+hv)*D x H)"}},
    {"transposed",
     [](M& m) {
       std::swap(m.tensor("blk.3.attn_k.weight").dims[0], m.tensor("blk.3.attn_k.weight").dims[1]);
     },
     {"is 128 x 64, wanted 64 x 128"}},
    {"experts",
     [](M& m) { m.tensor("blk.2.ffn_up_exps.weight").dims[2] = 7; },
     {"'blk.2.ffn_up_exps.weight' is 7 x 32 x 128, wanted 8 x 32 x 128 (E x F x H)"}},
    {"norm",
     [](M& m) { m.tensor("blk.0.hc_attn_norm.weight").dims[0] = 128; },
     {"'blk.0.hc_attn_norm.weight'", "wanted 512 (C*H)"}},
    {"one dimension more",
     [](M& m) { m.tensor("blk.0.ssm_norm.weight").dims.push_back(2); },
     {"'blk.0.ssm_norm.weight' is 2 x 128, wanted 128 (D)"}},
    {"table too small",
     [](M& m) { m.tensor("per_layer_token_embd.weight").dims[1] = 1853; },
     {"is 1853 x 16, wanted at least 1854 x 16"}},
    {"vocabulary",
     [](M& m) { m.tensor("token_embd.weight").dims[1] = 400; },
     {"is 400 x 128, wanted 384 x 128 (V x H)"}},
    {"vector quantised",
     [](M& m) { m.tensor("blk.0.ssm_norm.weight").type = WeightType::kQ8_0; },
     {"'blk.0.ssm_norm.weight' is stored as Q8_0, wanted F32, F16 or BF16"},
     Code::kUnsupported},
    {"vector NaN",
     [](M& m) {
       m.tensor("blk.0.ssm_norm.weight")
           .data.replace(20, 4, testing::le(std::numeric_limits<float>::quiet_NaN()));
     },
     {"'blk.0.ssm_norm.weight' holds nan at element 5"}},
    {"vector infinite",
     [](M& m) {
       m.tensor("output_hc_norm.weight")
           .data.replace(0, 4, testing::le(std::numeric_limits<float>::infinity()));
     },
     {"holds inf at element 0"}},
    {"ssm_a as A_log",
     [](M& m) { m.tensor("blk.2.ssm_a").data.replace(4, 4, testing::le(0.7f)); },
     {"'blk.2.ssm_a' holds 0.7", "-exp(A_log)"}},
    {"fused and unfused",
     [](M& m) {
       m.tensors.push_back({"blk.0.ffn_gate_up_exps.weight", WeightType::kQ8_0, {128, 64, 8}, ""});
     },
     {"'blk.0.ffn_gate_exps.weight' and 'blk.0.ffn_gate_up_exps.weight' are both"}},
    {"fused, up left",
     [](M& m) {
       m.tensors.push_back({"blk.0.ffn_gate_up_exps.weight", WeightType::kQ8_0, {128, 64, 8}, ""});
       m.remove_tensor("blk.0.ffn_gate_exps.weight");
     },
     {"'blk.0.ffn_up_exps.weight' and"}},
    {"gate missing",
     [](M& m) { m.remove_tensor("blk.0.ffn_gate_exps.weight"); },
     {"'blk.0.ffn_gate_exps.weight' is missing, wanted 8 x 32 x 128"}},
    {"incomplete draft",
     [](M& m) {
       m.u32("nextn_predict_layers", 1);
       m.u32("block_count", 5);
       m.i32s("attention.compress_ratios", {0, 0, 0, 4, 0});
       m.tensors.push_back({"blk.4.nextn.enorm.weight", WeightType::kF32, {128}, ""});
     },
     {"'blk.4.hc_attn_norm.weight' is missing"}},
};

TEST(Weights, EachMistakeIsNamed) {
  const EditedModel base;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    EditedModel m = base.copy();
    c.edit(m);
    const GgufFile* file = m.open();
    ASSERT_NE(file, nullptr);
    expect_error(bind(*file).status(), c.code, "edited.gguf: ", c.words);
  }
}

// Every tensor of the file is needed, except the output, which may be tied.
TEST(Weights, EveryTensorIsNeeded) {
  const EditedModel base;
  for (const EditedTensor& t : base.tensors) {
    if (t.name == "output.weight") continue;
    EditedModel m = base.copy();
    m.remove_tensor(t.name);
    expect_error(bind(*m.open()).status(), Code::kBadInput, "edited.gguf: ", {"'" + t.name + "' is missing"});
  }
}

TEST(Weights, TypesThatCannotBeComputed) {
  EditedModel m;
  const GgufFile* file = m.open();
  expect_error(bind(*file, [](WeightType t) { return t != WeightType::kQ8_0; }).status(), Code::kUnsupported,
               "edited.gguf: ", {"'token_embd.weight' is stored as Q8_0", "cannot compute"});
  expect_error(bind(*file, [](WeightType t) { return t != WeightType::kBF16; }).status(), Code::kUnsupported,
               "edited.gguf: ", {"'per_layer_token_embd.weight' is stored as BF16"});
}

TEST(Weights, TiedOutput) {
  EditedModel m;
  m.remove_tensor("output.weight");
  auto w = bind(*m.open());
  ASSERT_TRUE(w.ok()) << w.status().message();
  EXPECT_TRUE(w->tied_output);
  EXPECT_EQ(w->output.data, w->embed.data);
  EXPECT_EQ(w->output.rows, 384);
}

TEST(Weights, FusedGateAndUp) {
  EditedModel m;
  const std::string gate = m.tensor("blk.2.ffn_gate_exps.weight").data;
  const std::string up = m.tensor("blk.2.ffn_up_exps.weight").data;
  const size_t part = gate.size() / 8;
  std::string both;
  for (size_t e = 0; e < 8; ++e) both += gate.substr(e * part, part) + up.substr(e * part, part);
  m.remove_tensor("blk.2.ffn_gate_exps.weight");
  m.remove_tensor("blk.2.ffn_up_exps.weight");
  m.tensors.push_back({"blk.2.ffn_gate_up_exps.weight", WeightType::kQ8_0, {128, 64, 8}, both});
  auto w = bind(*m.open());
  ASSERT_TRUE(w.ok()) << w.status().message();
  const MoeWeights& moe = w->layers[2].moe;
  for (const auto& [matrix, wanted] : {std::pair{moe.gate, gate}, std::pair{moe.up, up}}) {
    EXPECT_EQ(matrix.experts, 8);
    EXPECT_EQ(matrix.first.rows, 32);
    EXPECT_EQ(matrix.first.cols, 128);
    EXPECT_EQ(matrix.expert_bytes, 2 * part);
    for (size_t e = 0; e < 8; ++e) {
      EXPECT_EQ(std::memcmp(static_cast<const char*>(matrix.first.data) + e * matrix.expert_bytes,
                            wanted.data() + e * part, part),
                0);
    }
  }
}

TEST(Weights, VectorsAreWidened) {
  EditedModel m;
  EditedTensor& f16 = m.tensor("blk.0.ssm_norm.weight");
  f16.type = WeightType::kF16;
  f16.data.clear();
  for (int i = 0; i < 128; ++i) f16.data += testing::le(static_cast<uint16_t>(0x3c00 + i));  // 1 + i/1024
  EditedTensor& bf16 = m.tensor("blk.0.hc_attn_norm.weight");
  bf16.type = WeightType::kBF16;
  bf16.dims = {128, 4};  // [C*H] as C rows of H
  bf16.data.clear();
  for (int i = 0; i < 512; ++i) bf16.data += testing::le(static_cast<uint16_t>(0x3f80 + i % 100));
  auto w = bind(*m.open());
  ASSERT_TRUE(w.ok()) << w.status().message();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(w->layers[0].gdn.norm[i], 1.0f + static_cast<float>(i) / 1024.0f);
  for (int i = 0; i < 512; ++i)
    EXPECT_EQ(w->layers[0].attn_mix.norm[i], 1.0f + static_cast<float>(i % 100) / 128.0f);
  EXPECT_EQ(w->copies.size(), 2u);
  EXPECT_EQ(w->copied_bytes, 640u * 4u);
  EXPECT_TRUE(w->warnings.empty());
}

TEST(Weights, UnalignedFilesAreCopied) {
  EditedModel m;
  auto aligned = bind(*m.open());
  ASSERT_TRUE(aligned.ok());
  const std::vector<float> norm(aligned->layers[3].ffn_mix.norm, aligned->layers[3].ffn_mix.norm + 512);
  m.set("a.pad", GgufType::kString, testing::text("x"));
  bool moved = false;
  for (int extra = 0; extra < 4; ++extra) {
    m.set("a.pad", GgufType::kString, testing::text(std::string(static_cast<size_t>(extra), 'x')));
    const GgufFile* file = m.open(1);
    auto w = bind(*file);
    ASSERT_TRUE(w.ok()) << w.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(w->layers[3].ffn_mix.norm) % 4, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(w->layers[0].attn_mix.inject.data) % 4, 0u);
    EXPECT_EQ(std::memcmp(w->layers[3].ffn_mix.norm, norm.data(), norm.size() * 4), 0);
    const GgufTensor* down = file->find_tensor("blk.3.ffn_down_exps.weight");
    EXPECT_EQ(std::memcmp(w->layers[3].moe.down.first.data, down->data, down->bytes), 0);
    moved = moved || (w->warnings.size() == 1 && w->warnings[0].find("not aligned") != std::string::npos);
  }
  EXPECT_TRUE(moved);
}

TEST(Weights, SqueezedStructuralTensorsWarn) {
  EditedModel m;
  for (const char* name :
       {"blk.0.hc_attn_down.weight", "blk.1.hc_ffn_up.weight", "blk.2.ffn_gate_inp.weight"}) {
    m.tensor(name).type = WeightType::kQ4_0;
  }
  m.tensor("blk.3.hc_ffn_inject.weight").type = WeightType::kIQ4_NL;
  m.tensor("blk.0.attn_qkv.weight").type = WeightType::kQ4_0;  // not structural
  auto w = bind(*m.open());
  ASSERT_TRUE(w.ok()) << w.status().message();
  ASSERT_EQ(w->warnings.size(), 1u);
  EXPECT_NE(w->warnings[0].find("4 structural tensors"), std::string::npos) << w->warnings[0];
  EXPECT_NE(w->warnings[0].find("1 in IQ4_NL, 3 in Q4_0"), std::string::npos) << w->warnings[0];
}

TEST(Weights, DraftBlock) {
  EditedModel m;
  m.u32("nextn_predict_layers", 1);
  m.u32("block_count", 5);
  m.i32s("attention.compress_ratios", {0, 0, 0, 4, 0});
  auto absent = bind(*m.open());
  ASSERT_TRUE(absent.ok()) << absent.status().message();
  EXPECT_TRUE(absent->drafts.empty());
  auto config = ModelConfig::read(*m.open());
  ASSERT_TRUE(config.ok());
  for (const TensorSpec& spec : tensor_specs()) {
    if (!spec_in_block(spec, *config, 4) || spec.need == Need::kFused) continue;
    EditedTensor t{spec_tensor_name(spec, 4), WeightType::kF32, {}, ""};
    for (Dim d : spec.shape) {
      if (d != Dim::kNone) t.dims.insert(t.dims.begin(), dim_value(d, *config));
    }
    m.tensors.push_back(t);
  }
  auto w = bind(*m.open());
  ASSERT_TRUE(w.ok()) << w.status().message();
  ASSERT_EQ(w->drafts.size(), 1u);
  EXPECT_EQ(w->drafts[0].draft.eh_proj.cols, 256);
  EXPECT_EQ(w->drafts[0].attention.q.rows, 256);
  EXPECT_EQ(w->drafts[0].gdn.qkv.data, nullptr);  // always an attention layer, whatever its index
  EXPECT_EQ(w->drafts[0].gdn.norm, nullptr);
  m.tensor("blk.4.nextn.eh_proj.weight").dims[0] = 128;
  expect_error(bind(*m.open()).status(), Code::kBadInput,
               "edited.gguf: ", {"'blk.4.nextn.eh_proj.weight' is 128 x 128, wanted 128 x 256 (H x 2*H)"});
  // Nothing runs the draft block yet, so its types are not a reason to refuse the file.
  m.tensor("blk.4.nextn.eh_proj.weight").dims[0] = 256;
  m.tensor("blk.4.nextn.eh_proj.weight").type = WeightType::kIQ1_S;
  auto odd = bind(*m.open(), [](WeightType t) { return t != WeightType::kIQ1_S; });
  EXPECT_TRUE(odd.ok()) << odd.status().message();
}

TEST(TensorSpecs, NamesAreUnique) {
  std::vector<std::string_view> names;
  for (const TensorSpec& s : tensor_specs()) names.push_back(s.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace argon
