// Tiles of unpacked weights on wide_neon.h: 16 rows of W, one segment of the contract at a time, four codes
// of each row side by side, so that a lane is a row of W; and the walk over a product's units.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/kernels/unpack_wide.h"
#include "cpu/kernels/x_rows.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxSegmentBlocks = 256;  // longer segments (K > 65536) take the step path

inline bool fits_tile(int64_t K) { return (K / 32 + 7) / 8 <= kMaxSegmentBlocks; }

template <class Format>
inline Codes32 row_codes(const uint8_t* row, int64_t b, Steps* s) {
  constexpr int kSubs = Format::kBlockValues / 32;
  return Unpack<Format>::codes(row + (b / kSubs) * Format::kBlockBytes, static_cast<int>(b % kSubs), s);
}

// One segment of 16 rows of W: codes [block][group of 4 values][row][4], scales and minima
// [block][step][row].
template <int kSteps, bool kHasMin>
struct SegmentTile {
  alignas(64) int8_t codes[kMaxSegmentBlocks * 512];
  alignas(64) float sw[kMaxSegmentBlocks * kSteps * 16];
  alignas(64) float mw[kHasMin ? kMaxSegmentBlocks * kSteps * 16 : 16];

  // Blocks b0 .. b0+n-1 of `rows` rows (1..16); absent rows are zero.
  template <class Format>
  void fill(const uint8_t* w, size_t row_bytes, int rows, int64_t b0, int64_t n) {
    for (int64_t b = 0; b < n; ++b) {
      Codes32 r[16];
      for (int i = 0; i < 16; ++i) {
        Steps s{};
        r[i] = i < rows ? row_codes<Format>(w + static_cast<size_t>(i) * row_bytes, b0 + b, &s) : no_codes();
        for (int step = 0; step < kSteps; ++step) {
          sw[(b * kSteps + step) * 16 + i] = s.sw[step];
          if constexpr (kHasMin) mw[(b * kSteps + step) * 16 + i] = s.mw[step];
        }
      }
      interleave_rows(r, codes + b * 512);
    }
  }
};
template <class Format>
using TileOf = SegmentTile<Format::kSteps, Format::kHasMin>;

// acc += a step with the given scales, minima and dots, lanes being rows of W.
template <int kSteps, bool kHasMin>
inline Floats16 add_step(Floats16 acc, Floats16 sw, const float* mw, Ints16 dot, float d, const int16_t* sums,
                         int step) {
  const Floats16 d16 = set16(d);
  acc = fma16(mul16(sw, d16), to_floats(dot), acc);
  if constexpr (kHasMin) {
    const Ints16 sum = weighted_sums(sums, kSteps == 1 || step == 0, kSteps == 1 || step == 1);
    acc = fnma16(mul16(load16(mw), d16), to_floats(sum), acc);
  }
  return acc;
}

// Units begin .. end-1 of a product; rows(w, m0, m1, x, xrows, y, stride) does one tile.
template <class Rows>
inline void matmul_units(const MatmulArgs& a, int64_t begin, int64_t end, Rows rows) {
  const XRows x{a.q, nullptr, a.T, a.w.cols};
  for (int64_t m = begin * kMatmulTile; m < end * kMatmulTile && m < a.w.rows; m += kMatmulTile) {
    rows(a.w, m, std::min(m + kMatmulTile, a.w.rows), a.x, x, a.y, a.ldy);
  }
}

template <class Rows>
inline void grouped_units(const MatmulGroupedArgs& a, int64_t begin, int64_t end, Rows rows) {
  each_expert(a, begin, end,
              [&](int64_t, int64_t, const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& x,
                  const float* in, float* y) {
                for (int64_t m = m0; m < m1; m += kMatmulTile)
                  rows(w, m, std::min(m + kMatmulTile, m1), in, x, y, w.rows);
              });
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
