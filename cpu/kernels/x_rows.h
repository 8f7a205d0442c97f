// The rows of x that a product with quantised weights reads, for the kernels of every instruction set.
#pragma once

#include "base/isa_namespace.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Rows of x that a product reads: row i of the call is row index[i] (or i) of q, and writes y + i*stride.
struct XRows {
  QuantizedRows q;
  const int32_t* index;
  int64_t count, K;
  int64_t row(int64_t i) const { return index != nullptr ? index[i] : i; }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
