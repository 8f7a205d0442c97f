// Row look-up in a weight matrix (token embedding, n-gram table): y[i] = row ids[i], widened as NUMERICS.md
// says: float types exactly, integer codes as code*sw rounded once, with a minimum fma(code, sw, -mw).
//
// Shapes  w [rows][K]; ids [n], 0 <= ids < rows; y [n][copies][K]: each row is written `copies` times (the
// residual streams). Units   ids.
#pragma once

#include <cstdint>

#include "ops/matmul/matmul.h"
#include "ops/route.h"

namespace argon::ops {

struct EmbedArgs {
  WeightMatrix w;
  const int32_t* ids;
  float* y;
  int64_t n, copies;
};

inline int64_t units(const EmbedArgs& a) { return a.n; }
void embed_ref(const EmbedArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
