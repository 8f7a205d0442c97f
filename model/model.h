// A model file made ready: reader, sizes, bound weights, tokenizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/weights.h"
#include "ops/backend.h"
#include "ops/sample/sample.h"
#include "tokenizer/tokenizer.h"

namespace argon {

// What the file recommends for sampling (general.sampling.*), where it does.
struct FileSampling {
  std::optional<float> temperature, top_p, min_p, repeat_penalty;
  std::optional<int32_t> top_k;
};

class Model {
 public:
  // Opens `path` (any part of a split file) for `backend`. `progress` gets a fraction 0..1 and what is being
  // done. Errors are those of GgufFile::open, ModelConfig::read, Weights::bind and Tokenizer::create.
  using Progress = std::function<void(double fraction, const char* what)>;
  static Result<std::unique_ptr<Model>> load(const std::string& path, ops::Backend& backend,
                                             const Progress& progress = nullptr);
  // The tokenizer of a file alone.
  static Result<std::unique_ptr<Tokenizer>> load_tokenizer(const GgufFile& file);

  const GgufFile& file() const { return *file_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const FileSampling& sampling() const { return sampling_; }
  // Whether the file's chat template can let the model think first.
  bool can_think() const { return can_think_; }
  // One line each, to be shown at every load.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Names this file's contents (metadata sizes, tensor table, a sample of the data) and the numeric
  // contract's version.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  Model() = default;
  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  Weights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  FileSampling sampling_;
  bool can_think_ = false;
  std::vector<std::string> warnings_;
  uint64_t fingerprint_ = 0;
};

}  // namespace argon
