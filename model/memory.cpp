#include "model/memory.h"

#include "model/forward.h"

namespace argon {
namespace {

struct Counter {
  ModelMemory& memory;

  void add(WeightKind kind, uint64_t bytes) { memory.weights[static_cast<size_t>(kind)] += bytes; }
  void matrix(WeightKind kind, const ops::WeightMatrix& w) {
    add(kind, static_cast<uint64_t>(w.rows) * w.row_bytes);
  }
  void vector(WeightKind kind, const float*, int64_t n) {
    add(kind, static_cast<uint64_t>(n) * sizeof(float));
  }
  void table(const ops::WeightMatrix& w) { memory.table += static_cast<uint64_t>(w.rows) * w.row_bytes; }
  void experts(std::span<const ops::ExpertMatrix* const> of_a_layer) {
    ops::MemoryNeeds::Layer layer{of_a_layer[0]->experts, 0};
    for (const ops::ExpertMatrix* m : of_a_layer) layer.bytes_each += ops::expert_room(*m);
    memory.layers.push_back(layer);
  }
};

}  // namespace

ops::MemoryNeeds ModelMemory::needs() const {
  ops::MemoryNeeds n;
  n.model = model;
  for (uint64_t bytes : weights) n.weights += bytes;
  n.working = passes + other;
  n.states = states;
  n.table = table;
  n.layers = layers;
  return n;
}

const char* weight_kind_name(WeightKind kind) {
  switch (kind) {
    case WeightKind::kEmbedding:
      return "token embedding";
    case WeightKind::kOutput:
      return "output";
    case WeightKind::kMixers:
      return "stream mixers";
    case WeightKind::kGdn:
      return "GDN layers";
    case WeightKind::kAttention:
      return "attention layers";
    case WeightKind::kNgrams:
      return "n-gram module";
    case WeightKind::kRouting:
      return "routers and shared experts";
  }
  return "";
}

ModelMemory model_memory(const ModelConfig& config, const Weights& weights, int64_t max_pass,
                         int64_t max_context, uint64_t state_bytes) {
  ModelMemory memory;
  memory.model = weights.embed.data;
  visit_weights(weights, weights.tied_output, config, Counter{memory});
  memory.passes = Forward::scratch_bytes(config, max_pass);
  memory.other = Forward::other_bytes(config, weights.table, max_pass, max_context);
  memory.states = state_bytes;
  return memory;
}

}  // namespace argon
