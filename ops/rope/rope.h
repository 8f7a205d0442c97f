// Rotary position embedding on the first `rot` values of each head, in place: pairs (i, i + rot/2),
//     y1 = fma(x1, c, -(x2*s)),  y2 = fma(x2, c, x1*s).
// theta_i = f32(base^(-2i/rot)); angle = position * theta_i, cosine and sine in float64 by base/exact_trig.h,
// rounded to f32: one host table for all backends (RopeTable).
//
// Shapes  x: head h of row t begins at x + t*stride + h*inner. table: rows of [rot/2] cosines then [rot/2]
// sines; row t
//         uses table row position0 + t*position_step.
// Units   rows (tokens).   Source: Su et al. 2021; NUMERICS.md "Ground rules".
#pragma once

#include <cstdint>
#include <vector>

#include "ops/route.h"

namespace argon::ops {

struct RopeArgs {
  float* x;
  int64_t stride, inner;
  int64_t rows, heads;
  const float* table;  // [positions][rot]
  int64_t rot;
  int64_t position0, position_step;
};

// Cosines and sines of positions first .. first+count-1, [count][rot].
void rope_fill(float* table, int64_t first, int64_t count, int64_t rot, float base);

inline int64_t units(const RopeArgs& a) { return a.rows; }
void rope_ref(const RopeArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
