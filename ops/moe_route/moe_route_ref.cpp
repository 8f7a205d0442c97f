#include <algorithm>

#include "ops/moe_route/route_token.h"

namespace argon::ops {

void moe_route_ref(const MoeRouteArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    RankedExperts ranked{a.logits + t * a.E, a.ids + t * a.K, a.K};
    for (int64_t e = 0; e < a.E; ++e) ranked.insert(e);
    weigh_experts(a, t);
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
