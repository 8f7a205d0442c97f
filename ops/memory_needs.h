// What is about to be asked of a backend's memory, said before the first weight is placed, so that a backend
// that has less can divide it. Bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace argon::ops {

struct MemoryNeeds {
  struct Layer {
    int64_t experts = 0;
    uint64_t bytes_each = 0;
  };
  const void* model = nullptr;  // whose needs: where its weights are
  uint64_t weights = 0;         // all but the experts
  uint64_t working = 0;         // of passes
  uint64_t states = 0;          // of sequences
  uint64_t own = 0;             // the backend's own: driver, kernels and what they use
  uint64_t table = 0;           // the table that place_table is asked for; may be left in the file
  std::vector<Layer> layers;

  // What must be there; experts and table come on top.
  uint64_t fixed() const { return weights + working + states + own; }
  uint64_t experts() const {
    uint64_t sum = 0;
    for (const Layer& l : layers) sum += static_cast<uint64_t>(l.experts) * l.bytes_each;
    return sum;
  }
};

}  // namespace argon::ops
