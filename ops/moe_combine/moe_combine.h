// The experts' rows of a token, weighted and added to the shared expert: s = sg*shared, then for k in rank
// order s = fma(w_k, y[slot_k], s); absent slots (slot < 0) are skipped. Only here are expert outputs added,
// so where an expert ran cannot matter.
//
// Shapes  y [S][H] expert rows; slot, w [T][K]; shared, out [T][H]; sg [T].   Units  tokens.
// Source  NUMERICS.md "Operations" (expert).
#pragma once

#include <cstdint>

#include "ops/route.h"

namespace argon::ops {

struct MoeCombineArgs {
  const float* y;
  const int32_t* slot;
  const float* w;
  const float *shared, *sg;
  float* out;
  int64_t T, K, H;
};

inline int64_t units(const MoeCombineArgs& a) { return a.T; }
void moe_combine_ref(const MoeCombineArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
