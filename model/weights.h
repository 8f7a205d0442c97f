// The tensors of a qwen4exp model, bound by name: where each one lies in the mapped file, in the types and
// shapes that the operations take. Names and shapes are data: model/tensor_specs.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "ops/matmul/matmul.h"

namespace argon {

// Shapes are rows x columns in the letters of ModelConfig. Vectors are f32, 4-byte aligned. A member that a
// layer does not have (a GDN layer's attention, the head mixer's inject) is empty: data or pointer null.
struct MixerWeights {
  const float* norm = nullptr;  // [C][H]
  ops::WeightMatrix down;       // R x C*H
  ops::WeightMatrix up;         // C*H x R
  ops::WeightMatrix inject;     // C x C*H
};

struct GdnWeights {
  ops::WeightMatrix qkv;          // channels x H: q heads, k heads, v heads (tiled order)
  ops::WeightMatrix z;            // hv*D x H
  ops::WeightMatrix alpha, beta;  // hv x H
  ops::WeightMatrix out;          // H x hv*D
  const float* conv = nullptr;    // [channels][taps], newest tap last
  const float* dt = nullptr;      // [hv] dt_bias
  const float* a = nullptr;       // [hv] -exp(A_log), none above 0
  const float* norm = nullptr;    // [D]
};

struct AttentionWeights {
  ops::WeightMatrix q;                  // 2*nq*dh x H: per head dh rows of q, then dh of gate
  ops::WeightMatrix k, v;               // nkv*dh x H
  ops::WeightMatrix out;                // H x nq*dh
  const float* q_norm = nullptr;        // [dh]
  const float* k_norm = nullptr;        // [dh]
  ops::WeightMatrix index_q;            // ni*di x H
  ops::WeightMatrix index_k;            // di x H
  const float* index_q_norm = nullptr;  // [di]
  const float* index_k_norm = nullptr;  // [di]
};

struct MoeWeights {
  ops::WeightMatrix router;                  // E x H
  ops::ExpertMatrix gate, up;                // E of F x H; both views of one tensor when the file fuses them
  ops::ExpertMatrix down;                    // E of H x F
  ops::WeightMatrix shared_router;           // 1 x H: the sigmoid gate of the shared expert
  ops::WeightMatrix shared_gate, shared_up;  // Fs x H
  ops::WeightMatrix shared_down;             // H x Fs
};

struct PleWeights {
  ops::WeightMatrix key;              // C*H x ple_width
  ops::WeightMatrix value;            // H x ple_width
  const float* conv = nullptr;        // [C*H][ple_taps], newest tap last
  const float* norm_key = nullptr;    // [C][H]
  const float* norm_query = nullptr;  // [C][H]
  const float* norm_conv = nullptr;   // [C][H]
};

// What a draft block has besides an attention layer's weights.
struct DraftWeights {
  ops::WeightMatrix eh_proj;     // H x 2*H: columns of fc_embedding, then of fc_hidden
  const float* enorm = nullptr;  // [H]
  const float* hnorm = nullptr;  // [C][H]
  MixerWeights head_mix;
};

struct LayerWeights {
  MixerWeights attn_mix, ffn_mix;
  GdnWeights gdn;
  AttentionWeights attention;
  PleWeights ple;
  MoeWeights moe;
  DraftWeights draft;
};

struct Weights {
  ops::WeightMatrix embed;   // V x H
  ops::WeightMatrix output;  // V x H; the same data as embed when tied
  bool tied_output = false;
  ops::WeightMatrix table;           // at least table_rows x W; empty without PLE
  MixerWeights head_mix;             // no inject
  std::vector<LayerWeights> layers;  // L of the main model
  std::vector<LayerWeights> drafts;  // draft_blocks, or empty when the file has none of their tensors

  std::vector<std::string> warnings;  // one line each, to be shown at every load

  // Finds, checks and binds every tensor. `file` must outlive the result. can_compute says which types the
  // engine's matrix products and look-ups take; draft blocks, which nothing runs yet, are not asked about.
  // kBadInput: a tensor is missing, unknown, mis-shaped, or a vector holds a value that is not finite.
  // kUnsupported: a type that can_compute refuses, or a vector in a type other than F32, F16, BF16.
  static Result<Weights> bind(const GgufFile& file, const ModelConfig& config,
                              const std::function<bool(WeightType)>& can_compute);

  // Copies that bind made: vectors widened to f32, data that the file leaves unaligned.
  std::vector<std::unique_ptr<float[]>> copies;
  uint64_t copied_bytes = 0;
};

}  // namespace argon
