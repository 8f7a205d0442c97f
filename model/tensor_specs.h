// The tensors that a qwen4exp file holds, as data: one row per name, read by Weights::bind, by the reports
// and by the synthetic model writer. Source: GGUF.md "Tensors", shapes from MODEL.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "model/config.h"
#include "model/weights.h"

namespace argon {

// Where a tensor occurs: once per model, or in blocks of a kind (name prefixed "blk.N.").
enum class Place { kModel, kBlock, kGdn, kAttention, kPle, kPleModel, kDraft };

// A size in MODEL.md's letters.
enum class Dim {
  kNone,
  kOne,
  kV,
  kH,
  k2H,
  kC,
  kCH,
  kR,
  kE,
  kF,
  k2F,
  kFs,
  kChannels,
  kHv,
  kHvD,
  kD,
  kTaps,
  kQGate,
  kQ,
  kKv,
  kDh,
  kNiDi,
  kDi,
  kPleWidth,
  kPleTaps,
  kTableRows,
  kW
};
int64_t dim_value(Dim dim, const ModelConfig& config);
std::string_view dim_name(Dim dim);  // "H", "C*H", ...

using MatrixSlot = ops::WeightMatrix& (*)(Weights&, LayerWeights&);
using VectorSlot = const float*& (*)(Weights&, LayerWeights&);
using ExpertSlot = ops::ExpertMatrix& (*)(Weights&, LayerWeights&);

// How an absent tensor is taken.
enum class Need {
  kRequired,
  kTied,     // output: token_embd takes its place
  kUnfused,  // gate and up experts: ffn_gate_up_exps may take their place
  kFused,    // ffn_gate_up_exps: gate rows before up rows of each expert
};

// What the values are, for the writer of synthetic models and for value checks.
enum class Role { kWeight, kNorm, kConv, kDtBias, kDecay, kRouter };

struct TensorSpec {
  std::string_view name;  // without "blk.N."
  Place place;
  std::array<Dim, 3>
      shape;  // slowest first: {experts, rows, columns}, {rows, columns, kNone}, {length, kNone, kNone}
  std::variant<MatrixSlot, VectorSlot, ExpertSlot> slot;
  Need need = Need::kRequired;
  Role role = Role::kWeight;
  bool structural = false;  // below 8 bits it makes a model ignore its prompt: warn

  bool is_vector() const { return std::holds_alternative<VectorSlot>(slot); }
  bool is_experts() const { return std::holds_alternative<ExpertSlot>(slot); }
};

std::span<const TensorSpec> tensor_specs();

// Whether block l (0 .. L + draft_blocks - 1) has this tensor; false for Place::kModel and kPleModel.
bool spec_in_block(const TensorSpec& spec, const ModelConfig& config, int64_t l);
// Whether the model has this tensor outside its blocks.
bool spec_in_model(const TensorSpec& spec, const ModelConfig& config);
// "blk.7.attn_q.weight", or the bare name for l < 0.
std::string spec_tensor_name(const TensorSpec& spec, int64_t l);

}  // namespace argon
