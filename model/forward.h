// The forward pass: reads tokens into a sequence's state and gives logits (MODEL.md "Whole pass"). This file
// and forward.cpp are the way of one token through the model, written in operations (ops/), whatever the
// backend.
//
// By the numeric contract the logits do not depend on how tokens are cut into passes, on threads or on the
// backend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "model/config.h"
#include "model/ngram_rows.h"
#include "model/placed_weights.h"
#include "model/scratch.h"
#include "model/state.h"
#include "ops/backend.h"
#include "ops/buffer.h"

namespace argon {

enum class LogitsFor { kNone, kLast, kAll };

// What ops::sample chooses after the last token read.
struct NextToken {
  ops::SampleOptions options;
  uint32_t choice = 0;
  int32_t token = -1;  // the answer
};

struct ReadOptions {
  LogitsFor logits = LogitsFor::kLast;
  float* out = nullptr;       // [1 or T][V]; null with kLast: they stay where they are
  NextToken* next = nullptr;  // with kLast: chosen where the logits are
  // Called after each pass with tokens done and in all; false stops with kCancelled, the state standing after
  // that pass.
  std::function<bool(int64_t done, int64_t total)> progress;
  // For tests: the wide residual [T][C*H] as it enters each layer, and the head mixer's output [T][H] (layer
  // = L).
  std::function<void(int64_t layer, const float* x, int64_t T)> observe;
};

class Forward {
 public:
  // `max_pass`: most tokens per pass (working memory grows with it); `max_context`: most tokens of any state
  // read; `state_bytes`: of all states to come (SequenceState::bytes), for which a backend that divides its
  // memory is to leave room. config and weights must outlive the object. kResource when memory cannot be had.
  static Result<std::unique_ptr<Forward>> create(const ModelConfig& config, const Weights& weights,
                                                 ops::Backend& backend, int64_t max_pass, int64_t max_context,
                                                 uint64_t state_bytes = 0);

  // Reads tokens (ids 0..V-1) after what the state holds. kBadInput when they do not fit its capacity or are
  // no ids; kNumeric when a wanted logit is not finite, naming position and first layer; the state is then to
  // be reset. What the backend fails with is handed on, and the state is empty afterwards.
  Status read(SequenceState& state, std::span<const int32_t> tokens, const ReadOptions& options);

  // Goes back to `position`, reading again what the last checkpoint lacks.
  Status rewind(SequenceState& state, int64_t position);

  int64_t max_pass() const { return max_pass_; }
  // Working memory in bytes of passes of max_pass tokens.
  static uint64_t scratch_bytes(const ModelConfig& config, int64_t max_pass);
  // What create takes besides: the rotary table, the n-gram module's constants and the rows that it is
  // handed.
  static uint64_t other_bytes(const ModelConfig& config, const ops::WeightMatrix& table, int64_t max_pass,
                              int64_t max_context);

 private:
  // An input of matrix products: float32 rows, and the same quantised.
  struct Input {
    const float* x = nullptr;
    ops::QuantizedRows q;
  };
  enum class Pending { kNone, kBlock, kExperts };
  // What every part of a layer works on: T tokens from position0 on.
  struct Pass {
    SequenceState* state;
    std::span<const int32_t> tokens, next;  // next: of the pass to come
    int64_t T, position0;
    float *x, *n, *h, *b, *inj;  // [T][C][H], [T][C][H], [T][H], [T][H], [T][C]
    ops::QuantizedRows nq, hq;   // n and h, quantised
    Pending pending;             // what the streams still lack: nothing, b, or what `combine` would put there
    ops::MoeCombineArgs combine;
  };

  Forward(const ModelConfig& config, ops::Backend& backend, int64_t max_pass)
      : c_(config), backend_(backend), max_pass_(max_pass) {}
  Status prepare_ngrams(const ops::WeightMatrix& table);
  std::vector<int32_t> ngram_window(std::span<const int32_t> before, std::span<const int32_t> tokens) const;
  void look_up_ngrams(Pass& p, int32_t* tokens, int32_t* rows, float* e);
  void pass(Pass& p, const ReadOptions& options, int64_t wanted, float* logits);
  void observe(const ReadOptions& options, int64_t layer, const float* x, int64_t T, int64_t width);
  Status not_finite(const SequenceState& state, int64_t position);
  static ops::MatmulArgs product(const ops::WeightMatrix& w, const Input& in, float* y, int64_t T);
  template <class Args, class Run>
  void quantizing(Args a, const ops::QuantizedRows& q, int64_t rows, Run run);
  void add_pending(Pass& p);
  void mix(Pass& p, const MixerWeights& m);
  void gdn(Pass& p, const GdnWeights& w, SequenceState::GdnLayer& s);
  void attention(Pass& p, const AttentionWeights& w, SequenceState::AttentionLayer& s);
  void experts(Pass& p, const MoeWeights& w);
  void ngrams(Pass& p, const PleWeights& w);
  Status ensure_rope(int64_t positions);

  const ModelConfig& c_;
  PlacedWeights w_;
  ops::Backend& backend_;
  int64_t max_pass_;
  ops::Buffer block_, rope_, constants_;
  // Where the backend leaves the n-gram table in the file: the rows of a pass, their numbers 0, 1, 2, ...,
  // and who fetches them.
  ops::Buffer handed_rows_, handed_ids_;
  std::unique_ptr<NgramRows> ngram_rows_;
  Scratch scratch_;
  size_t part_ = 0;  // where in scratch_ the arrays of a layer's part begin
  int64_t rope_rows_ = 0, rope_capacity_ = 0;
};

}  // namespace argon
