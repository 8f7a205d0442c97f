// The weights where a backend reads them: the same tree as Weights, its pointers replaced by those that the
// backend gave for each tensor (on the CPU the file's own).
#pragma once

#include "base/status.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace argon {

struct PlacedWeights {
  ops::WeightMatrix embed, output, table;
  MixerWeights head_mix;
  std::vector<LayerWeights> layers;

  // `config` gives the lengths of vectors. kResource when the backend has no room.
  static Result<PlacedWeights> place(const Weights& weights, const ModelConfig& config,
                                     ops::Backend& backend);
};

}  // namespace argon
