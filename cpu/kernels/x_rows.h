// The rows of x that a product with quantised weights reads, for the kernels of every instruction set.
#pragma once

#include <algorithm>

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

// fn(u, stop, w, m0, m1, x, first row of x, y) for units u .. stop-1, those of one expert together, experts
// without rows left out.
template <class Fn>
inline void each_expert(const MatmulGroupedArgs& a, int64_t begin, int64_t end, Fn fn) {
  const int64_t tiles = (a.w.first.rows + kMatmulTile - 1) / kMatmulTile;
  for (int64_t u = begin, stop; u < end; u = stop) {
    const int64_t e = u / tiles, m0 = u % tiles * kMatmulTile;
    stop = std::min(end, (e + 1) * tiles);
    const int64_t m1 = std::min((stop - e * tiles) * kMatmulTile, a.w.first.rows);
    const int64_t s0 = a.expert_begin[e], count = a.expert_begin[e + 1] - s0;
    if (count == 0) continue;
    WeightMatrix w = a.w.first;
    w.data = static_cast<const uint8_t*>(w.data) + static_cast<size_t>(e) * a.w.expert_bytes;
    XRows rows{a.q, nullptr, count, w.cols};
    const float* x = a.x;
    if (a.slot_row != nullptr) {
      rows.index = a.slot_row + s0;
    } else {
      x += s0 * w.cols;
      rows.q.codes += s0 * w.cols;
      rows.q.d += s0 * (w.cols / 32);
      rows.q.sums += s0 * (w.cols / 16);
    }
    fn(u, stop, w, m0, m1, rows, x, a.y + s0 * w.rows);
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
