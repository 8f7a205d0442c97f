// The options that several commands share: how they are written, their ranges, their defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/backends.h"
#include "base/status.h"
#include "model/model.h"
#include "ops/kv_store/kv_store.h"
#include "ops/sample/sample.h"

namespace CLI {
class App;
}

namespace argon::cli {

// Which model, and what computes it.
struct EngineOptions {
  std::string model;  // empty: the bundled one
  std::optional<int64_t> context;
  std::optional<int64_t> threads;
  std::optional<int64_t> pass;
  std::string backend = "auto";
  std::string isa;
  std::string kv = "f16";
  std::string gpu_memory;  // empty: what is free

  ops::KvType kv_type() const { return kv == "f32" ? ops::KvType::kF32 : ops::KvType::kF16; }
  // Of options that check() has found good.
  app::BackendChoice choice() const;
  bool bundled() const { return model.empty(); }
};

// How an answer is written.
struct AnswerOptions {
  std::optional<int64_t> max_tokens;
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty;
  std::optional<int64_t> top_k, penalty_window;
  std::string seed_text = "0";
  std::vector<std::string> stop;
  std::optional<std::string> system;
  bool no_think = false;

  uint64_t seed = 0;  // from seed_text, by check()
};

// "12G", "1.5g", "800M", "123456" in bytes, the letters being powers of 1024. kBadInput for anything else.
Result<uint64_t> parse_size(const char* name, const std::string& text);

void add_model_option(CLI::App& app, std::string& model);
void add_gpu_memory_option(CLI::App& app, EngineOptions& o);
// -m -t --backend --isa --gpu-memory --pass --kv; -c where a command has a use for it.
void add_engine_options(CLI::App& app, EngineOptions& o, bool with_context);
void add_answer_options(CLI::App& app, AnswerOptions& o);

// What can be said before any file is opened: kBadInput naming the option, what was found and what was
// wanted.
Status check(const EngineOptions& o);
Status check(AnswerOptions& o);
Status check_range(const char* name, const std::optional<int64_t>& value, int64_t low, int64_t high);

// The sampling that holds: what the user says, else what the file says, else temperature 0 for the bundled
// model and the family's 0.7 / top-k 20 / top-p 0.8 for others.
ops::SampleOptions sampling_for(const AnswerOptions& o, const FileSampling& file, bool bundled);

inline constexpr int64_t kMaxContext = int64_t{1} << 24;
inline constexpr int64_t kMaxThreads = 1024;
inline constexpr int64_t kMaxPass = 65536;

}  // namespace argon::cli
