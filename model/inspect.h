// What a GGUF file holds and what this engine can do with it, for `argon inspect`: gathered once, shown as
// text or JSON. Works on any GGUF file; of a file that is no runnable qwen4exp model it says why.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "model/config.h"
#include "model/weight_check.h"

namespace argon {

struct InspectOptions {
  uint64_t tokens = 0;  // context whose memory is shown; 0: the model's context_length
  ops::KvType kv = ops::KvType::kF16;
  bool tensors = false;                         // list every tensor in the text (JSON always does)
  std::function<bool(WeightType)> can_compute;  // null: everything
};

// What would go where with so much GPU memory (tiers/plan.h), in bytes.
struct GpuPlacement {
  struct Part {
    std::string name;
    uint64_t bytes;
  };
  uint64_t budget = 0;
  std::vector<Part> gpu;  // in the GPU's memory, experts and table included
  uint64_t gpu_bytes = 0;
  int64_t experts = 0, gpu_experts = 0;
  std::vector<int64_t> gpu_experts_of_layer;
  uint64_t host_experts_bytes = 0;  // computed by the CPU
  uint64_t file_table_bytes = 0;    // of the n-gram table, when it stays in the file
};

struct InspectReport {
  struct Part {
    std::string path;
    uint64_t bytes;
  };
  // One weight type's share of the file.
  struct Type {
    std::string name;
    bool computable;
    uint64_t tensors, values, bytes;
  };

  const GgufFile* file = nullptr;  // must outlive the report
  std::vector<Part> parts;
  std::vector<Type> types;  // largest first
  std::optional<ModelConfig> config;
  uint64_t values = 0;  // weights in the file, draft blocks included
  // Per token of a qwen4exp model: weights and bytes of the file that one step reads (K of E experts, one row
  // of the embedding, one n-gram row per head). The bytes over the memory's speed are the floor of a step's
  // time.
  uint64_t active_values = 0, active_bytes = 0;
  uint64_t tokens = 0;
  ops::KvType kv = ops::KvType::kF16;
  StateBytes state;                   // of one sequence of `tokens` tokens
  std::vector<std::string> problems;  // each a line; none: the engine runs this file
  std::vector<std::string> warnings;
  bool list_tensors = false;
  std::optional<WeightCheck> check;       // set by the caller that made one; its finds are no problems above
  std::optional<GpuPlacement> placement;  // for the caller to fill

  bool runnable() const { return problems.empty() && (!check || check->bad.empty()); }
};

InspectReport inspect(const GgufFile& file, const InspectOptions& options);

// Lines for a terminal; text from the file has its control bytes escaped.
std::string inspect_text(const InspectReport& report);
// One JSON object, indented by two. Arrays of more than 16 elements appear as {"type", "count", "first"}.
std::string inspect_json(const InspectReport& report);

}  // namespace argon
