// The gated activation of an expert: h = (g*sigmoid(g))*u.
//
// Shapes  g, u, h [rows][F]; h may be g.   Units  rows.   Source: Shazeer 2020; NUMERICS.md "Operations"
// (expert).
#pragma once

#include <cstdint>

#include "base/isa_namespace.h"
#include "ops/matmul/matmul.h"
#include "ops/route.h"

namespace argon::ops {

struct SwigluArgs {
  const float *g, *u;
  float* h;
  int64_t rows, F;
  QuantizedRows out_q = {};  // of h, or empty
};

inline int64_t units(const SwigluArgs& a) { return a.rows; }
inline namespace ARGON_ISA_NS {
inline QuantizeArgs quantized(const SwigluArgs& a) { return {a.h, a.out_q, a.rows, a.F}; }
}  // namespace ARGON_ISA_NS
void swiglu_ref(const SwigluArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
