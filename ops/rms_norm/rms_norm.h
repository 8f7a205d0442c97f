// Root-mean-square norm of rows with shared weights: r = 1/sqrt(ss/n + eps), y = (x*r)*w, ss = sum of x*x
// (sum256 from 512 values on, sum32 below), division by n as f32. Used per head on queries, keys and the
// indexer's queries.
//
// Shapes  x [rows] groups of n values; row i begins at x + (i / group)*stride + (i % group)*inner (elements),
// so that heads
//         interleaved with other data need no copy. w [n]. y like x (own strides); y may be x.
// Units   rows.   Source: Zhang & Sennrich 2019; NUMERICS.md "Operations".
#pragma once

#include <cstdint>

#include "ops/route.h"

namespace argon::ops {

struct RmsNormArgs {
  const float* x;
  int64_t x_stride, x_inner;
  const float* w;
  float* y;
  int64_t y_stride, y_inner;
  int64_t rows, group, n;
  float eps;
};

inline int64_t units(const RmsNormArgs& a) { return a.rows; }
void rms_norm_ref(const RmsNormArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
