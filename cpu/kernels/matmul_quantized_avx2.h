// Products with quantised weights in AVX2, for any format (formats/block.h).
//
// Few rows of x (step): a row of W is read where it lies. The 8 segments of the contract are the 8 lanes:
// block j of each segment gives 8 integer dots, which one conversion, product and fma add to 8 accumulators.
// Many rows (prompt): 8 rows of W, one segment at a time, are unpacked once into a buffer that stays in the
// first-level cache, four codes of each row side by side; a lane is a row of W, and each x row is read once
// per 8 rows.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/kernels/simd_avx2.h"
#include "formats/block.h"
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

constexpr int64_t kMaxSegmentBlocks = 256;  // longer segments (K > 65536) take the step path

// Sums of 8 products each: lanes 0-3 of v[i] are the low half block of block i, 4-7 the high half.
inline void reduce8(const __m256i* v, __m256i* low, __m256i* high) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  *low = _mm256_permute2x128_si256(a, b, 0x20);
  *high = _mm256_permute2x128_si256(a, b, 0x31);
}

// w*x of 32 codes, summed in fours. Exact: |w| <= 128, |x| <= 127, so a pair stays within 16 bits.
inline __m256i dot_fours(__m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Codes of 32 values: formats whose codes lie as bytes or plain nibbles are unpacked in registers, others by
// their own code.
template <class Format>
struct Unpack {
  static __m256i codes(const uint8_t* block, int sub, Steps* s) {
    alignas(32) int8_t c[32];
    Format::unpack32(block, sub, c, s);
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(c));
  }
};

template <class Format>
inline float step_row(const uint8_t* row, const int8_t* x, const float* d, const int16_t* sums, int64_t n) {
  constexpr int kSubs = Format::kBlockValues / 32;
  int64_t begin[9];
  for (int i = 0; i <= 8; ++i) begin[i] = segment_begin(n, i);
  const int64_t longest = (n + 7) / 8;
  __m256 acc = _mm256_setzero_ps();
  for (int64_t j = 0; j < longest; ++j) {
    __m256i v[8];
    alignas(32) float sw[2][8], mw[2][8], dx[8], sum[2][8];
    alignas(32) int32_t present[8];
    for (int i = 0; i < 8; ++i) {
      present[i] = begin[i] + j < begin[i + 1] ? -1 : 0;
      const int64_t b = present[i] != 0 ? begin[i] + j : 0;
      Steps s;
      const __m256i w =
          Unpack<Format>::codes(row + (b / kSubs) * Format::kBlockBytes, static_cast<int>(b % kSubs), &s);
      v[i] = dot_fours(w, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * 32)));
      dx[i] = d[b];
      for (int step = 0; step < Format::kSteps; ++step) sw[step][i] = s.sw[step];
      if constexpr (Format::kHasMin) {
        for (int step = 0; step < Format::kSteps; ++step) mw[step][i] = s.mw[step];
        if constexpr (Format::kSteps == 1) {
          sum[0][i] = static_cast<float>(sums[2 * b] + sums[2 * b + 1]);
        } else {
          sum[0][i] = sums[2 * b], sum[1][i] = sums[2 * b + 1];
        }
      }
    }
    __m256i half[2];
    reduce8(v, &half[0], &half[1]);
    if constexpr (Format::kSteps == 1) half[0] = _mm256_add_epi32(half[0], half[1]);
    const __m256 d8 = _mm256_load_ps(dx);
    __m256 next = acc;
    for (int step = 0; step < Format::kSteps; ++step) {
      next =
          _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(sw[step]), d8), _mm256_cvtepi32_ps(half[step]), next);
      if constexpr (Format::kHasMin) {
        next = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(mw[step]), d8), _mm256_load_ps(sum[step]), next);
      }
    }
    acc = _mm256_blendv_ps(acc, next,
                           _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(present))));
  }
  alignas(32) float s[8];
  _mm256_store_ps(s, acc);
  return ((((((s[0] + s[1]) + s[2]) + s[3]) + s[4]) + s[5]) + s[6]) + s[7];
}

// One segment of 8 rows of W: codes[block][group of 4 values][row][4], scales and minima [block][step][row].
template <class Format>
struct SegmentTile {
  alignas(32) int8_t codes[kMaxSegmentBlocks * 256];
  alignas(32) float sw[kMaxSegmentBlocks * Format::kSteps * 8];
  alignas(32) float mw[Format::kHasMin ? kMaxSegmentBlocks * Format::kSteps * 8 : 8];

  // Blocks b0 .. b0+n-1 of `rows` rows (1..8); absent rows are zero.
  void fill(const uint8_t* w, size_t row_bytes, int64_t rows, int64_t b0, int64_t n) {
    constexpr int kSubs = Format::kBlockValues / 32;
    for (int64_t b = 0; b < n; ++b) {
      __m256i r[8];
      const int64_t at = b0 + b;
      for (int i = 0; i < 8; ++i) {
        Steps s{};
        r[i] = i >= rows ? _mm256_setzero_si256()
                         : Unpack<Format>::codes(w + static_cast<size_t>(i) * row_bytes +
                                                     static_cast<size_t>(at / kSubs) * Format::kBlockBytes,
                                                 static_cast<int>(at % kSubs), &s);
        for (int step = 0; step < Format::kSteps; ++step) {
          sw[(b * Format::kSteps + step) * 8 + i] = i >= rows ? 0.0f : s.sw[step];
          if constexpr (Format::kHasMin)
            mw[(b * Format::kSteps + step) * 8 + i] = i >= rows ? 0.0f : s.mw[step];
        }
      }
      transpose(r, codes + b * 256);
    }
  }

 private:
  // 8 rows of 8 groups of 4 codes: group-major, row-minor.
  static void transpose(const __m256i* r, int8_t* out) {
    __m256 t[8], u[8];
    for (int i = 0; i < 8; ++i) t[i] = _mm256_castsi256_ps(r[i]);
    for (int i = 0; i < 8; i += 2) {
      u[i] = _mm256_unpacklo_ps(t[i], t[i + 1]);
      u[i + 1] = _mm256_unpackhi_ps(t[i], t[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      t[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
      t[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
      t[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
      t[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      _mm256_store_ps(reinterpret_cast<float*>(out) + 8 * i, _mm256_permute2f128_ps(t[i], t[i + 4], 0x20));
      _mm256_store_ps(reinterpret_cast<float*>(out) + 8 * (i + 4),
                      _mm256_permute2f128_ps(t[i], t[i + 4], 0x31));
    }
  }
};

// kMaxCode bounds |code| where a format's codes are small, so that products of `kGroups` groups of four fit
// 16 bits together.
template <class Format>
struct CodeRange {
  static constexpr int kGroups = 1;
};

// The sums of one segment for NT rows of x: acc[t] has a lane per row of W.
template <class Format, int NT>
inline void segment_sums(const SegmentTile<Format>& tile, int64_t n, const int8_t* const* x,
                         const float* const* d, const int16_t* const* sums, __m256* acc) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int t = 0; t < NT; ++t) acc[t] = _mm256_setzero_ps();
  for (int64_t b = 0; b < n; ++b) {
    const int8_t* codes = tile.codes + b * 256;
    for (int step = 0; step < Format::kSteps; ++step) {
      constexpr int kPerStep = 8 / Format::kSteps;
      constexpr int kGroups = std::min(CodeRange<Format>::kGroups, kPerStep);
      __m256i isum[NT];
      for (int t = 0; t < NT; ++t) isum[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
      for (int g = step * kPerStep; g < (step + 1) * kPerStep; g += kGroups) {
        __m256i pairs[NT];
#pragma GCC unroll 8
        for (int k = 0; k < kGroups; ++k) {
          const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + (g + k) * 32));
          const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
          for (int t = 0; t < NT; ++t) {
            int32_t four;
            std::memcpy(&four, x[t] + b * 32 + (g + k) * 4, 4);
            const __m256i p = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(_mm256_set1_epi32(four), w));
            pairs[t] = k == 0 ? p : _mm256_add_epi16(pairs[t], p);
          }
        }
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) isum[t] = _mm256_add_epi32(isum[t], _mm256_madd_epi16(pairs[t], ones));
      }
      const __m256 sw = _mm256_load_ps(tile.sw + (b * Format::kSteps + step) * 8);
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t) {
        const __m256 dx = _mm256_set1_ps(d[t][b]);
        acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(sw, dx), _mm256_cvtepi32_ps(isum[t]), acc[t]);
        if constexpr (Format::kHasMin) {
          const __m256 mw = _mm256_load_ps(tile.mw + (b * Format::kSteps + step) * 8);
          const int sum = Format::kSteps == 1 ? sums[t][2 * b] + sums[t][2 * b + 1] : sums[t][2 * b + step];
          acc[t] = _mm256_fnmadd_ps(_mm256_mul_ps(mw, dx), _mm256_set1_ps(static_cast<float>(sum)), acc[t]);
        }
      }
    }
  }
}

// y of NT rows of x, from row i0 of the call on, gets segment `segment` (blocks b0 .. b0+n-1).
template <class Format, int NT>
inline void add_segment(const SegmentTile<Format>& tile, int segment, int64_t b0, int64_t n, const XRows& x,
                        int64_t i0, float* y, int64_t stride, __m256i mask) {
  const int8_t* codes[NT];
  const float* d[NT];
  const int16_t* sums[NT];
  for (int t = 0; t < NT; ++t) {
    const int64_t row = x.row(i0 + t);
    codes[t] = x.q.codes + row * x.K + b0 * 32;
    d[t] = x.q.d + row * (x.K / 32) + b0;
    sums[t] = x.q.sums + row * (x.K / 16) + b0 * 2;
  }
  __m256 acc[NT];
  segment_sums<Format, NT>(tile, n, codes, d, sums, acc);
  for (int t = 0; t < NT; ++t) {
    float* out = y + (i0 + t) * stride;
    if (segment > 0) acc[t] = _mm256_add_ps(_mm256_maskload_ps(out, mask), acc[t]);
    _mm256_maskstore_ps(out, mask, acc[t]);
  }
}

// Rows m0 .. m1-1 of W (at most kMatmulTile) times all rows of x; y points at column 0 of its first row.
template <class Format>
inline void quantized_rows(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const XRows& x,
                           float* y, int64_t stride) {
  const int64_t n = x.K / 32;
  if (x.count < 4 || (n + 7) / 8 > kMaxSegmentBlocks) {
    for (int64_t m = m0; m < m1; ++m) {
      for (int64_t i = 0; i < x.count; ++i) {
        const int64_t row = x.row(i);
        y[i * stride + m] = step_row<Format>(w + static_cast<size_t>(m) * row_bytes, x.q.codes + row * x.K,
                                             x.q.d + row * n, x.q.sums + row * 2 * n, n);
      }
    }
    return;
  }
  SegmentTile<Format> tile;
  for (int64_t m = m0; m < m1; m += 8) {
    const int64_t rows = std::min<int64_t>(8, m1 - m);
    alignas(32) int32_t lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = i < rows ? -1 : 0;
    const __m256i mask = _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes));
    for (int s = 0; s < 8; ++s) {
      const int64_t b0 = segment_begin(n, s), blocks = segment_begin(n, s + 1) - b0;
      tile.fill(w + static_cast<size_t>(m) * row_bytes, row_bytes, rows, b0, blocks);
      int64_t i = 0;
      for (; i + 4 <= x.count; i += 4) add_segment<Format, 4>(tile, s, b0, blocks, x, i, y + m, stride, mask);
      for (; i < x.count; ++i) add_segment<Format, 1>(tile, s, b0, blocks, x, i, y + m, stride, mask);
    }
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
