#include "model/tensor_specs.h"

namespace argon {
namespace {

// Slots: where bind puts what it found.
#define ARGON_MODEL(member) [](Weights& w, LayerWeights&) -> decltype((w.member)) { return w.member; }
#define ARGON_LAYER(member) [](Weights&, LayerWeights& l) -> decltype((l.member)) { return l.member; }

using enum Place;
using enum Dim;
using enum Need;
using enum Role;

constexpr TensorSpec kSpecs[] = {
    {"token_embd.weight", kModel, {kV, kH}, ARGON_MODEL(embed)},
    {"output.weight", kModel, {kV, kH}, ARGON_MODEL(output), kTied},
    {"output_hc_norm.weight", kModel, {kCH}, ARGON_MODEL(head_mix.norm), kRequired, kNorm},
    {"output_hc_down.weight", kModel, {kR, kCH}, ARGON_MODEL(head_mix.down), kRequired, kWeight, true},
    {"output_hc_up.weight", kModel, {kCH, kR}, ARGON_MODEL(head_mix.up), kRequired, kWeight, true},
    {"per_layer_token_embd.weight", kPleModel, {kTableRows, kW}, ARGON_MODEL(table)},

    {"hc_attn_norm.weight", kBlock, {kCH}, ARGON_LAYER(attn_mix.norm), kRequired, kNorm},
    {"hc_attn_down.weight", kBlock, {kR, kCH}, ARGON_LAYER(attn_mix.down), kRequired, kWeight, true},
    {"hc_attn_up.weight", kBlock, {kCH, kR}, ARGON_LAYER(attn_mix.up), kRequired, kWeight, true},
    {"hc_attn_inject.weight", kBlock, {kC, kCH}, ARGON_LAYER(attn_mix.inject), kRequired, kWeight, true},

    {"attn_qkv.weight", kGdn, {kChannels, kH}, ARGON_LAYER(gdn.qkv)},
    {"attn_gate.weight", kGdn, {kHvD, kH}, ARGON_LAYER(gdn.z)},
    {"ssm_conv1d.weight", kGdn, {kChannels, kTaps}, ARGON_LAYER(gdn.conv), kRequired, kConv, true},
    {"ssm_dt.bias", kGdn, {kHv}, ARGON_LAYER(gdn.dt), kRequired, kDtBias},
    {"ssm_a", kGdn, {kHv}, ARGON_LAYER(gdn.a), kRequired, kDecay},
    {"ssm_alpha.weight", kGdn, {kHv, kH}, ARGON_LAYER(gdn.alpha)},
    {"ssm_beta.weight", kGdn, {kHv, kH}, ARGON_LAYER(gdn.beta)},
    {"ssm_norm.weight", kGdn, {kD}, ARGON_LAYER(gdn.norm), kRequired, kNorm},
    {"ssm_out.weight", kGdn, {kH, kHvD}, ARGON_LAYER(gdn.out)},

    {"attn_q.weight", kAttention, {kQGate, kH}, ARGON_LAYER(attention.q)},
    {"attn_k.weight", kAttention, {kKv, kH}, ARGON_LAYER(attention.k)},
    {"attn_v.weight", kAttention, {kKv, kH}, ARGON_LAYER(attention.v)},
    {"attn_output.weight", kAttention, {kH, kQ}, ARGON_LAYER(attention.out)},
    {"attn_q_norm.weight", kAttention, {kDh}, ARGON_LAYER(attention.q_norm), kRequired, kNorm},
    {"attn_k_norm.weight", kAttention, {kDh}, ARGON_LAYER(attention.k_norm), kRequired, kNorm},
    {"indexer.q_proj.weight", kAttention, {kNiDi, kH}, ARGON_LAYER(attention.index_q)},
    {"indexer.k_proj.weight", kAttention, {kDi, kH}, ARGON_LAYER(attention.index_k)},
    {"indexer.q_norm.weight", kAttention, {kDi}, ARGON_LAYER(attention.index_q_norm), kRequired, kNorm},
    {"indexer.k_norm.weight", kAttention, {kDi}, ARGON_LAYER(attention.index_k_norm), kRequired, kNorm},

    {"ple_key.weight", kPle, {kCH, kPleWidth}, ARGON_LAYER(ple.key)},
    {"ple_value.weight", kPle, {kH, kPleWidth}, ARGON_LAYER(ple.value)},
    {"ple_conv1d.weight", kPle, {kCH, kPleTaps}, ARGON_LAYER(ple.conv), kRequired, kConv, true},
    {"ple_norm_key.weight", kPle, {kCH}, ARGON_LAYER(ple.norm_key), kRequired, kNorm},
    {"ple_norm_query.weight", kPle, {kCH}, ARGON_LAYER(ple.norm_query), kRequired, kNorm},
    {"ple_norm_conv.weight", kPle, {kCH}, ARGON_LAYER(ple.norm_conv), kRequired, kNorm},

    {"hc_ffn_norm.weight", kBlock, {kCH}, ARGON_LAYER(ffn_mix.norm), kRequired, kNorm},
    {"hc_ffn_down.weight", kBlock, {kR, kCH}, ARGON_LAYER(ffn_mix.down), kRequired, kWeight, true},
    {"hc_ffn_up.weight", kBlock, {kCH, kR}, ARGON_LAYER(ffn_mix.up), kRequired, kWeight, true},
    {"hc_ffn_inject.weight", kBlock, {kC, kCH}, ARGON_LAYER(ffn_mix.inject), kRequired, kWeight, true},
    {"ffn_gate_inp.weight", kBlock, {kE, kH}, ARGON_LAYER(moe.router), kRequired, kRouter, true},
    {"ffn_gate_inp_shexp.weight", kBlock, {kOne, kH}, ARGON_LAYER(moe.shared_router)},
    {"ffn_gate_shexp.weight", kBlock, {kFs, kH}, ARGON_LAYER(moe.shared_gate)},
    {"ffn_up_shexp.weight", kBlock, {kFs, kH}, ARGON_LAYER(moe.shared_up)},
    {"ffn_down_shexp.weight", kBlock, {kH, kFs}, ARGON_LAYER(moe.shared_down)},
    {"ffn_gate_exps.weight", kBlock, {kE, kF, kH}, ARGON_LAYER(moe.gate), kUnfused},
    {"ffn_up_exps.weight", kBlock, {kE, kF, kH}, ARGON_LAYER(moe.up), kUnfused},
    {"ffn_gate_up_exps.weight", kBlock, {kE, k2F, kH}, ARGON_LAYER(moe.gate), kFused},
    {"ffn_down_exps.weight", kBlock, {kE, kH, kF}, ARGON_LAYER(moe.down)},

    {"nextn.eh_proj.weight", kDraft, {kH, k2H}, ARGON_LAYER(draft.eh_proj)},
    {"nextn.enorm.weight", kDraft, {kH}, ARGON_LAYER(draft.enorm), kRequired, kNorm},
    {"nextn.hnorm.weight", kDraft, {kCH}, ARGON_LAYER(draft.hnorm), kRequired, kNorm},
    {"nextn.hc_head_norm.weight", kDraft, {kCH}, ARGON_LAYER(draft.head_mix.norm), kRequired, kNorm},
    {"nextn.hc_head_down.weight",
     kDraft,
     {kR, kCH},
     ARGON_LAYER(draft.head_mix.down),
     kRequired,
     kWeight,
     true},
    {"nextn.hc_head_up.weight", kDraft, {kCH, kR}, ARGON_LAYER(draft.head_mix.up), kRequired, kWeight, true},
};

#undef ARGON_MODEL
#undef ARGON_LAYER

struct DimInfo {
  std::string_view name;
  int64_t (*value)(const ModelConfig&);
};

constexpr DimInfo dim_info(Dim dim) {
  switch (dim) {
    case kNone:
      break;
    case kOne:
      return {"1", [](const ModelConfig&) -> int64_t { return 1; }};
    case kV:
      return {"V", [](const ModelConfig& c) { return c.V; }};
    case kH:
      return {"H", [](const ModelConfig& c) { return c.H; }};
    case k2H:
      return {"2*H", [](const ModelConfig& c) { return 2 * c.H; }};
    case kC:
      return {"C", [](const ModelConfig& c) { return c.C; }};
    case kCH:
      return {"C*H", [](const ModelConfig& c) { return c.CH(); }};
    case kR:
      return {"R", [](const ModelConfig& c) { return c.R; }};
    case kE:
      return {"E", [](const ModelConfig& c) { return c.E; }};
    case kF:
      return {"F", [](const ModelConfig& c) { return c.F; }};
    case k2F:
      return {"2*F", [](const ModelConfig& c) { return 2 * c.F; }};
    case kFs:
      return {"shared F", [](const ModelConfig& c) { return c.Fs; }};
    case kChannels:
      return {"(2*hk+hv)*D", [](const ModelConfig& c) { return c.channels(); }};
    case kHv:
      return {"hv", [](const ModelConfig& c) { return c.hv; }};
    case kHvD:
      return {"hv*D", [](const ModelConfig& c) { return c.hv * c.D; }};
    case kD:
      return {"D", [](const ModelConfig& c) { return c.D; }};
    case kTaps:
      return {"taps", [](const ModelConfig& c) { return c.conv_taps; }};
    case kQGate:
      return {"2*nq*dh", [](const ModelConfig& c) { return 2 * c.nq * c.dh; }};
    case kQ:
      return {"nq*dh", [](const ModelConfig& c) { return c.nq * c.dh; }};
    case kKv:
      return {"nkv*dh", [](const ModelConfig& c) { return c.nkv * c.dh; }};
    case kDh:
      return {"dh", [](const ModelConfig& c) { return c.dh; }};
    case kNiDi:
      return {"ni*di", [](const ModelConfig& c) { return c.ni * c.di; }};
    case kDi:
      return {"di", [](const ModelConfig& c) { return c.di; }};
    case kPleWidth:
      return {"n-gram width", [](const ModelConfig& c) { return c.ple_width(); }};
    case kPleTaps:
      return {"n-gram taps", [](const ModelConfig& c) { return c.ple_taps; }};
    case kTableRows:
      return {"table rows", [](const ModelConfig& c) { return c.table_rows; }};
    case kW:
      return {"row width", [](const ModelConfig& c) { return c.W; }};
  }
  return {"", [](const ModelConfig&) -> int64_t { return 1; }};
}

}  // namespace

int64_t dim_value(Dim dim, const ModelConfig& config) { return dim_info(dim).value(config); }
std::string_view dim_name(Dim dim) { return dim_info(dim).name; }

std::span<const TensorSpec> tensor_specs() { return kSpecs; }

bool spec_in_block(const TensorSpec& spec, const ModelConfig& config, int64_t l) {
  const bool draft = l >= config.L;
  switch (spec.place) {
    case kModel:
    case kPleModel:
      return false;
    case kBlock:
      return true;
    case kGdn:
      return !draft && !config.is_attention(l);
    case kAttention:
      return draft || config.is_attention(l);
    case kPle:
      return l == config.ple_layer;
    case kDraft:
      return draft;
  }
  return false;
}

bool spec_in_model(const TensorSpec& spec, const ModelConfig& config) {
  return spec.place == kModel || (spec.place == kPleModel && config.has_ple());
}

std::string spec_tensor_name(const TensorSpec& spec, int64_t l) {
  if (l < 0) return std::string(spec.name);
  return "blk." + std::to_string(l) + "." + std::string(spec.name);
}

}  // namespace argon
