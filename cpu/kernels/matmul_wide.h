// Matrix products on wide_neon.h, for any format (formats/block.h). A lane is a row of W.
//
// Few rows of x (step): 16 rows of W are read where they lie, some blocks ahead of the float steps, so that
// the scales, which are stored one by one, are not read back at once. Many rows (prompt): 16 rows of W, one
// segment at a time, are unpacked once into a buffer that stays in the first-level caches, four codes of each
// row side by side.
#pragma once

#include "cpu/kernels/float_rows_wide.h"
#include "cpu/kernels/segment_tile.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kAhead = 8;  // blocks

// Rows 0 .. rows-1 (1..16) of W times one row of x.
template <class Format>
inline void step_rows(const uint8_t* w, size_t row_bytes, int rows, const int8_t* x, const float* d,
                      const int16_t* sums, int64_t n, float* y) {
  constexpr int kSteps = Format::kSteps;
  constexpr bool kHasMin = Format::kHasMin, kHalves = Unpack<Format>::kLeadingHalf;
  alignas(64) float sw[kHalves ? 16 : kAhead * kSteps * 16], mw[kHasMin ? kAhead * kSteps * 16 : 16];
  alignas(64) uint16_t half[kHalves ? kAhead * 16 : 16];
  alignas(64) int32_t dots[kAhead * kSteps * 16];
  const uint8_t* row[16];
  for (int i = 0; i < 16; ++i) row[i] = w + static_cast<size_t>(i < rows ? i : rows - 1) * row_bytes;
  Floats16 total = zero16();
  for (int s = 0; s < 8; ++s) {
    const int64_t stop = segment_begin(n, s + 1);
    Floats16 acc = zero16();
    for (int64_t b0 = segment_begin(n, s); b0 < stop; b0 += kAhead) {
      const int64_t count = stop - b0 < kAhead ? stop - b0 : kAhead;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t b = b0 + j;
        Codes32 codes[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          Steps st;
          codes[i] = row_codes<Format>(row[i], b, &st);
          if constexpr (kHalves) {
            constexpr int kSubs = Format::kBlockValues / 32;
            std::memcpy(half + j * 16 + i, row[i] + (b / kSubs) * Format::kBlockBytes, 2);
          }
          for (int step = 0; step < kSteps; ++step) {
            if constexpr (!kHalves) sw[(j * kSteps + step) * 16 + i] = st.sw[step];
            if constexpr (kHasMin) mw[(j * kSteps + step) * 16 + i] = st.mw[step];
          }
        }
        Ints16 dot[2];
        row_dots(codes, load_codes(x + b * 32), &dot[0], &dot[1]);
        if constexpr (kSteps == 1) dot[0] = add_ints(dot[0], dot[1]);
        for (int step = 0; step < kSteps; ++step) store_ints(dots + (j * kSteps + step) * 16, dot[step]);
      }
      for (int64_t j = 0; j < count; ++j) {
        const int64_t b = b0 + j;
        for (int step = 0; step < kSteps; ++step) {
          const int64_t at = (j * kSteps + step) * 16;
          Floats16 scale;
          if constexpr (kHalves) {
            scale = load16_f16(reinterpret_cast<const uint8_t*>(half + at));
          } else {
            scale = load16(sw + at);
          }
          acc =
              add_step<kSteps, kHasMin>(acc, scale, mw + at, load_ints(dots + at), d[b], sums + 2 * b, step);
        }
      }
    }
    total = s == 0 ? acc : add16(total, acc);
  }
  store_some(y, total, rows);
}

// y of NT rows of x, from row i0 of the call on, gets segment `segment` (blocks b0 .. b0+n-1).
template <int NT, int kSteps, bool kHasMin>
inline void add_segment(const SegmentTile<kSteps, kHasMin>& tile, int segment, int64_t b0, int64_t n,
                        const XRows& x, int64_t i0, float* y, int64_t stride, int rows) {
  const int8_t* codes[NT];
  const float* d[NT];
  const int16_t* sums[NT];
  Floats16 acc[NT];
  for (int t = 0; t < NT; ++t) {
    const int64_t row = x.row(i0 + t);
    codes[t] = x.q.codes + row * x.K + b0 * 32;
    d[t] = x.q.d + row * (x.K / 32) + b0;
    sums[t] = x.q.sums + row * (x.K / 16) + b0 * 2;
    acc[t] = zero16();
  }
  constexpr int kGroups = 8 / kSteps;
  for (int64_t b = 0; b < n; ++b) {
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      Ints16 dot[NT];
#pragma GCC unroll 8
      for (int t = 0; t < NT; ++t) dot[t] = zero_ints();
      tile_dots<kGroups, NT>(tile.codes + b * 512 + step * 256, codes, b * 32 + step * 16, dot);
      const int64_t at = (b * kSteps + step) * 16;
#pragma GCC unroll 8
      for (int t = 0; t < NT; ++t) {
        acc[t] = add_step<kSteps, kHasMin>(acc[t], load16(tile.sw + at), tile.mw + at, dot[t], d[t][b],
                                           sums[t] + 2 * b, step);
      }
    }
  }
  for (int t = 0; t < NT; ++t) {
    float* out = y + (i0 + t) * stride;
    segment == 0 ? store_some(out, acc[t], rows) : add_some(out, acc[t], rows);
  }
}

template <int NT, int kSteps, bool kHasMin>
[[gnu::noinline]] int64_t add_segments(const SegmentTile<kSteps, kHasMin>& tile, int segment, int64_t b0,
                                       int64_t n, const XRows& x, int64_t i, float* y, int64_t stride,
                                       int rows) {
  for (; i + NT <= x.count; i += NT) add_segment<NT>(tile, segment, b0, n, x, i, y, stride, rows);
  if constexpr (NT > 1) i = add_segments<NT / 2>(tile, segment, b0, n, x, i, y, stride, rows);
  return i;
}

// Rows m0 .. m1-1 of W (at most kMatmulTile = 16) times all rows of x; y points at column 0 of its first row.
template <class Format>
inline void quantized_rows(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const XRows& x,
                           float* y, int64_t stride) {
  const int64_t n = x.K / 32;
  const uint8_t* first = w + static_cast<size_t>(m0) * row_bytes;
  const int rows = static_cast<int>(m1 - m0);
  if (x.count < 4 || !fits_tile(x.K)) {
    for (int64_t i = 0; i < x.count; ++i) {
      const int64_t row = x.row(i);
      step_rows<Format>(first, row_bytes, rows, x.q.codes + row * x.K, x.q.d + row * n,
                        x.q.sums + row * 2 * n, n, y + i * stride + m0);
    }
    return;
  }
  TileOf<Format> tile;
  for (int s = 0; s < 8; ++s) {
    const int64_t b0 = segment_begin(n, s), blocks = segment_begin(n, s + 1) - b0;
    tile.template fill<Format>(first, row_bytes, rows, b0, blocks);
    add_segments<kPromptRows>(tile, s, b0, blocks, x, 0, y + m0, stride, rows);
  }
}

// Rows m0 .. m1-1 of w times the given rows of x.
inline void any_rows(const WeightMatrix& w, int64_t m0, int64_t m1, const float* x, const XRows& rows,
                     float* y, int64_t stride) {
  const uint8_t* data = static_cast<const uint8_t*>(w.data);
  switch (w.type) {
    case WeightType::kF32:
      return float_rows<WeightType::kF32>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    case WeightType::kF16:
      return float_rows<WeightType::kF16>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    case WeightType::kBF16:
      return float_rows<WeightType::kBF16>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    default:
      with_format(w.type, [&](auto format) {
        quantized_rows<decltype(format)>(data, w.row_bytes, m0, m1, rows, y, stride);
      });
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
