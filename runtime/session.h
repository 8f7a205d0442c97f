// One conversation with a model: reads prompts, reusing what the sequence already holds, and generates
// answers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/state.h"
#include "ops/sample/sample.h"

namespace argon {

struct SessionOptions {
  int64_t context = 0;   // tokens; 0: what the model was made for
  int64_t max_pass = 0;  // tokens read per pass; 0: chosen from the model's width
  ops::KvType kv_type = ops::KvType::kF16;
};

struct GenerateOptions {
  ops::SampleOptions sampling;
  int64_t max_tokens = -1;        // -1: until the model ends or the context is full
  std::vector<std::string> stop;  // the answer ends before the first of these
};

enum class FinishReason { kStop, kLength, kCancelled };

struct Generated {
  std::vector<int32_t> tokens;  // without the token that ended it
  FinishReason reason = FinishReason::kStop;
  int64_t prompt_tokens = 0;  // of the prompt
  int64_t prompt_read = 0;    // of these, read now; the rest was reused
  double prompt_seconds = 0, generate_seconds = 0;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(const Model& model, ops::Backend& backend,
                                                 const SessionOptions& options);

  // Reads the prompt (the whole sequence from its beginning; an equal beginning already held is not read
  // again), then generates. `text` receives the answer in pieces of whole UTF-8 characters and returns false
  // to stop (it is called for every token, with an empty piece where nothing can be shown yet); `progress` as
  // in ReadOptions. kBadInput for an empty or too long prompt and when the model file was changed while in
  // use; kCancelled when stopped while reading.
  using Text = std::function<bool(std::string_view)>;
  Result<Generated> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                             const Text& text,
                             const std::function<bool(int64_t, int64_t)>& progress = nullptr);

  SequenceState& state() { return *state_; }
  Forward& forward() { return *forward_; }

  // Tokens per pass whose working memory is near a 32nd of the memory that the backend computes in (48 MiB to
  // 512 MiB for every 512 tokens of its best pass); at most that best pass, at least 16.
  static int64_t default_pass(const ModelConfig& config, const ops::Backend& backend);
  static int64_t default_pass(const ModelConfig& config, int64_t best_pass, uint64_t memory);

 private:
  explicit Session(const Model& model) : model_(model) {}
  Status read_prompt(std::span<const int32_t> prompt, NextToken& next, Generated& g,
                     const std::function<bool(int64_t, int64_t)>& progress);

  const Model& model_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<SequenceState> state_;
};

}  // namespace argon
