#include <algorithm>

#include "base/exact_math.h"
#include "ops/moe_route/moe_route.h"

namespace argon::ops {

void moe_route_ref(const MoeRouteArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const float* l = a.logits + t * a.E;
    int32_t* ids = a.ids + t * a.K;
    float* w = a.w + t * a.K;
    // Insertion into the ranked list: a later index goes behind an equal logit.
    int64_t kept = 0;
    for (int64_t e = 0; e < a.E; ++e) {
      int64_t at = kept;
      while (at > 0 && l[e] > l[ids[at - 1]]) --at;
      if (at == a.K) continue;
      kept = std::min(kept + 1, a.K);
      for (int64_t i = kept - 1; i > at; --i) ids[i] = ids[i - 1];
      ids[at] = static_cast<int32_t>(e);
    }
    float sum = 0.0f;
    for (int64_t k = 0; k < a.K; ++k) {
      w[k] = exp32(l[ids[k]] - l[ids[0]]);
      sum = k == 0 ? w[k] : sum + w[k];
    }
    for (int64_t k = 0; k < a.K; ++k) w[k] = w[k] / sum;
    a.sg[t] = sigmoid32(a.shared[t]);
  }
}

void moe_group_ref(const MoeGroupArgs& a, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int64_t slots = a.T * a.K;
  std::fill_n(a.expert_begin, a.E + 1, 0);
  for (int64_t i = 0; i < slots; ++i) ++a.expert_begin[a.ids[i] + 1];
  for (int64_t e = 0; e < a.E; ++e) a.expert_begin[e + 1] += a.expert_begin[e];
  // expert_begin[e] serves as the next free slot of e, which leaves it at the begin of e+1: shift back at the
  // end.
  for (int64_t i = 0; i < slots; ++i) {
    const int32_t s = a.expert_begin[a.ids[i]]++;
    a.slot[i] = s;
    a.slot_row[s] = static_cast<int32_t>(i / a.K);
  }
  for (int64_t e = a.E; e > 0; --e) a.expert_begin[e] = a.expert_begin[e - 1];
  a.expert_begin[0] = 0;
}

}  // namespace argon::ops
