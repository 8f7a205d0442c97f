// The walk of the indexer's selection over tokens (ops/qsa_select/qsa_select.h), for kernels that score and
// keep in their own way.
#pragma once

#include <cstdlib>

#include "base/isa_namespace.h"
#include "ops/qsa_select/qsa_select.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Tokens begin .. end-1: score(q, blocks, scores) writes the scores of a token's blocks, and may write `room`
// more; keep(scores, blocks, kept) chooses the budget's.
template <class Score, class Keep>
inline void select_tokens(const QsaSelectArgs& a, int64_t begin, int64_t end, int64_t room, Score score,
                          Keep keep) {
  float* scores = nullptr;  // of the longest token of the call
  for (int64_t t = end - 1; t >= begin; --t) {
    const int64_t blocks = (a.position0 + t + 1) / a.r;
    if (blocks <= a.budget) {
      a.count[t] = kAllBlocks;
      continue;
    }
    if (scores == nullptr)
      scores = static_cast<float*>(std::malloc(static_cast<size_t>(blocks + room) * sizeof(float)));
    if (scores == nullptr) return qsa_select_ref(a, begin, t + 1);
    score(a.iq + t * a.ni * a.di, blocks, scores);
    keep(scores, blocks, a.kept + t * a.budget);
    a.count[t] = static_cast<int32_t>(a.budget);
  }
  std::free(scores);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
