// What a model takes of a backend's memory, by the same walk over its weights that places them: by these
// figures memory is divided before anything is placed (Forward::create), and `argon inspect` tells it.
#pragma once

#include <array>
#include <cstdint>

#include "model/config.h"
#include "model/weight_visitor.h"
#include "ops/backend.h"

namespace argon {

struct ModelMemory {
  const void* model = nullptr;  // MemoryNeeds::model
  static constexpr size_t kKinds = 7;
  std::array<uint64_t, kKinds> weights{};  // by WeightKind
  uint64_t table = 0;                      // the n-gram table, which may be left in the file
  uint64_t passes = 0;                     // working memory of passes
  uint64_t other = 0;                      // Forward::other_bytes
  uint64_t states = 0;
  std::vector<ops::MemoryNeeds::Layer> layers;

  ops::MemoryNeeds needs() const;
};

// "token embedding", "routers and shared experts", ...
const char* weight_kind_name(WeightKind kind);

// For passes of `max_pass` tokens, a context of `max_context` and states of `state_bytes` in all
// (SequenceState::bytes each).
ModelMemory model_memory(const ModelConfig& config, const Weights& weights, int64_t max_pass,
                         int64_t max_context, uint64_t state_bytes);

}  // namespace argon
