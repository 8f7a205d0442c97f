// Top-k routing: which experts a token takes, with which weights, and the tokens grouped by expert.
//
//   moe_route  the K largest of E logits, ties to the lower index, in rank order; e_j = exp(l_j - max),
//              w_j = e_j / (sum of e in rank order); the shared expert's gate sg = sigmoid(shared logit).
//   moe_group  slots sorted by expert, then token, then rank: slot_row[s] is the slot's token, slot[t][k] the
//   slot of token
//              t's k-th expert, expert_begin[e] the first slot of expert e. Integers only.
//
// Shapes  logits [T][E]; shared [T]; ids, w, slot [T][K]; sg [T]; expert_begin [E+1]; slot_row [T*K].
// Units   route: tokens; group: one.   Source: Shazeer et al. 2017; NUMERICS.md "Operations" (router).
#pragma once

#include <cstdint>

#include "ops/route.h"

namespace argon::ops {

struct MoeRouteArgs {
  const float *logits, *shared;
  int32_t* ids;
  float *w, *sg;
  int64_t T, E, K;
};

struct MoeGroupArgs {
  const int32_t* ids;
  int32_t *expert_begin, *slot_row, *slot;
  int64_t T, E, K;
};

inline int64_t units(const MoeRouteArgs& a) { return a.T; }
inline int64_t units(const MoeGroupArgs&) { return 1; }
void moe_route_ref(const MoeRouteArgs&, int64_t begin, int64_t end);
void moe_group_ref(const MoeGroupArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
