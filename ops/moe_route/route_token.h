// One token's routing, for the reference and the kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/exact_math.h"
#include "base/isa_namespace.h"
#include "ops/moe_route/moe_route.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// The list of the K largest logits: a later index goes behind an equal logit.
struct RankedExperts {
  const float* logits;
  int32_t* ids;
  int64_t K, kept = 0;

  void insert(int64_t e) {
    int64_t at = kept;
    while (at > 0 && logits[e] > logits[ids[at - 1]]) --at;
    if (at == K) return;
    kept = std::min(kept + 1, K);
    for (int64_t i = kept - 1; i > at; --i) ids[i] = ids[i - 1];
    ids[at] = static_cast<int32_t>(e);
  }
};

// Weights of token t's ranked experts, and the shared expert's gate.
inline void weigh_experts(const MoeRouteArgs& a, int64_t t) {
  const float* l = a.logits + t * a.E;
  const int32_t* ids = a.ids + t * a.K;
  float* w = a.w + t * a.K;
  float sum = 0.0f;
  for (int64_t k = 0; k < a.K; ++k) {
    w[k] = exp32(l[ids[k]] - l[ids[0]]);
    sum = k == 0 ? w[k] : sum + w[k];
  }
  for (int64_t k = 0; k < a.K; ++k) w[k] = w[k] / sum;
  a.sg[t] = sigmoid32(a.shared[t]);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
