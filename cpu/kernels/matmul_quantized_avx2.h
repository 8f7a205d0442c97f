// Products with quantised weights in AVX2, for any format (unpack_avx2.h).
//
// One row of x: step_avx2.h. More rows (prompt): 8 rows of W are unpacked into a tile, four codes of each row
// side by side, so that a lane is a row of W; each group of four x codes is broadcast to them. Rows of x are
// taken in blocks that the second-level cache holds.
#pragma once

#include <algorithm>

#include "cpu/kernels/simd_avx2.h"
#include "cpu/kernels/step_avx2.h"
#include "cpu/kernels/x_rows.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kTileBlocks =
    64;  // a pair of tiles takes as many segments as stay below, so that it stays in the first-level cache
constexpr int64_t kMostTokens =
    128;  // rows of x taken together, so that their part of a tile's blocks stays in the second

// Keeps the compiler from turning a chain of sums into a tree, which needs more registers than there are.
inline __m256i in_order(__m256i v) {
  asm("" : "+x"(v));
  return v;
}

// Some segments of 8 rows of W: codes[block][group of 4 values][row][4], steps and minima [block][step][row].
template <class Format>
struct Tile {
  static constexpr int64_t kSegment = (kMaxBlocks + 7) / 8;
  static constexpr int64_t kMost = (kSegment > kTileBlocks ? kSegment : kTileBlocks) + 16;
  alignas(32) int8_t codes[kMost * 256];
  alignas(32) float sw[kMost * Format::kSteps * 8];
  alignas(32) float mw[Format::kHasMin ? kMost * Format::kSteps * 8 : 8];
  int64_t first;  // block of the row that is block 0 here
  size_t ahead;   // bytes from a row to that of the next tile, which is fetched meanwhile

  // Blocks b0 .. b1-1 (and up to 7 more at both ends) of `rows` rows (1..8) of n; a lane beyond them repeats
  // the last row.
  void fill(const uint8_t* w, size_t row_bytes, int64_t rows, int64_t n, int64_t b0, int64_t b1) {
    const uint8_t* row[8];
    for (int64_t i = 0; i < 8; ++i) row[i] = w + static_cast<size_t>(std::min(i, rows - 1)) * row_bytes;
    ahead = 16 * row_bytes;
    if (n < 8) {
      first = b0;
      for (int64_t b = b0; b < b1; ++b) fill_one(row, b);
      return;
    }
    // Whole stored blocks; the last eight may overlap the eight before.
    first = std::min(kSubs == 1 ? b0 : b0 / kSubs * kSubs, n - 8);
    for (int64_t b = first; b < b1; b += 8) fill_eight(row, std::min(b, n - 8));
  }

 private:
  static constexpr int kSubs = Format::kBlockValues / 32, kSteps = Format::kSteps;

  void fill_eight(const uint8_t* const* row, int64_t b) {
    alignas(32) __m256 c[8][8];  // [block][row]
    alignas(32) float s[kSteps][64], m[kSteps][64];
    for (int i = 0; i < 8; ++i) {
      Group8 g;
      const uint8_t* block = row[i] + static_cast<size_t>(b / kSubs) * Format::kBlockBytes;
      prefetch(block + ahead, 8 / kSubs * Format::kBlockBytes);
      Unpack8<Format>::run(block, &g);
      for (int k = 0; k < 8; ++k) c[k][i] = _mm256_castsi256_ps(g.codes[k]);
      for (int step = 0; step < kSteps; ++step) {
        _mm256_store_ps(s[step] + 8 * i, g.sw[step]);
        if constexpr (Format::kHasMin) _mm256_store_ps(m[step] + 8 * i, g.mw[step]);
      }
    }
    for (int k = 0; k < 8; ++k) {
      __m256 t[8];
      transpose8(reinterpret_cast<const float*>(c[k]), 8, t);
      for (int i = 0; i < 8; ++i)
        _mm256_store_ps(reinterpret_cast<float*>(codes + (b - first + k) * 256 + 32 * i), t[i]);
    }
    for (int step = 0; step < kSteps; ++step) {
      __m256 t[8];
      transpose8(s[step], 8, t);
      for (int k = 0; k < 8; ++k) _mm256_store_ps(sw + ((b - first + k) * kSteps + step) * 8, t[k]);
      if constexpr (Format::kHasMin) {
        transpose8(m[step], 8, t);
        for (int k = 0; k < 8; ++k) _mm256_store_ps(mw + ((b - first + k) * kSteps + step) * 8, t[k]);
      }
    }
  }

  // Rows of fewer than eight blocks.
  void fill_one(const uint8_t* const* row, int64_t b) {
    alignas(32) int8_t c[8][32];
    for (int i = 0; i < 8; ++i) {
      Steps s;
      Format::unpack32(row[i] + static_cast<size_t>(b / kSubs) * Format::kBlockBytes,
                       static_cast<int>(b % kSubs), c[i], &s);
      for (int step = 0; step < kSteps; ++step) {
        sw[((b - first) * kSteps + step) * 8 + i] = s.sw[step];
        if constexpr (Format::kHasMin) mw[((b - first) * kSteps + step) * 8 + i] = s.mw[step];
      }
    }
    __m256 t[8];
    transpose8(reinterpret_cast<const float*>(c), 8, t);
    for (int i = 0; i < 8; ++i) {
      const __m256i four =
          _mm256_add_epi8(_mm256_castps_si256(t[i]), _mm256_set1_epi8(Unpack8<Format>::kOffset));
      _mm256_store_si256(reinterpret_cast<__m256i*>(codes + (b - first) * 256 + 32 * i), four);
    }
  }
};

// Groups of four whose products fit 16 bits together, a power of two.
template <class Format>
constexpr int groups_together() {
  if (Unpack8<Format>::kSigned) return 1;
  int groups = 8 / Format::kSteps;
  while (groups * 2 * 127 * Unpack8<Format>::kMaxCode > 32767) groups /= 2;
  return groups;
}

// One row of x for the tile.
struct TileRow {
  const int8_t* codes;
  const int8_t* magnitudes;  // of codes, or null
  const float* d;
  const int32_t* sums;  // fill_sums, steps n apart
};

inline __m256i broadcast_four(const int8_t* codes) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(codes)));
}

// How the sign of a product gets into unsigned times signed bytes: not at all, from the weight's code (any
// code), or from that of x, whose absolute values are made once (types without codes of -128).
enum class Signs { kNone, kOfWeight, kOfX };
template <class Format>
constexpr Signs signs_of() {
  if (!Unpack8<Format>::kSigned) return Signs::kNone;
  return Unpack8<Format>::kMaxCode > 127 ? Signs::kOfWeight : Signs::kOfX;
}
constexpr int64_t kMostMagnitudes = 10240;  // K up to which they are made; longer rows are rare

// Adds segments s0 .. s1-1 of two tiles' rows, a lane each, to the totals of NT rows of x.
template <class Format, int NT, Signs kSigns>
inline void tile_products(const Tile<Format>* tile, int64_t n, int s0, int s1, const TileRow* x,
                          __m256 (&total)[2][NT]) {
  using Unpacked = Unpack8<Format>;
  constexpr int kSteps = Format::kSteps, kPerStep = 8 / kSteps, kTogether = groups_together<Format>();
  const __m256i ones = _mm256_set1_epi16(1);
  int64_t b = segment_begin(n, s0);
  bool begun = s0 > 0;
  for (int s = s0; s < s1; ++s) {
    if (segment_begin(n, s + 1) == b) continue;
    __m256 acc[2][NT];
#pragma GCC unroll 8
    for (int i = 0; i < 2 * NT; ++i) acc[i / NT][i % NT] = _mm256_setzero_ps();
    for (const int64_t end = segment_begin(n, s + 1); b < end; ++b) {
      const int64_t at = b - tile->first;
#pragma GCC unroll 2
      for (int step = 0; step < kSteps; ++step) {
        __m256i isum[2][NT];
#pragma GCC unroll 8
        for (int g0 = 0; g0 < kPerStep; g0 += kTogether) {
          __m256i pairs[2][NT];
#pragma GCC unroll 8
          for (int k = 0; k < kTogether; ++k) {
            const int64_t g = step * kPerStep + g0 + k;
            __m256i w[2], magnitude[2];
#pragma GCC unroll 2
            for (int r = 0; r < 2; ++r) {
              w[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(tile[r].codes + at * 256 + g * 32));
              magnitude[r] = kSigns == Signs::kOfWeight ? _mm256_abs_epi8(w[r]) : w[r];
            }
#pragma GCC unroll 4
            for (int t = 0; t < NT; ++t) {
              const __m256i four = broadcast_four(x[t].codes + b * 32 + g * 4);
              __m256i positive = four;
              if constexpr (kSigns == Signs::kOfX)
                positive = broadcast_four(x[t].magnitudes + b * 32 + g * 4);
#pragma GCC unroll 2
              for (int r = 0; r < 2; ++r) {
                __m256i p;
                if constexpr (kSigns == Signs::kOfX) {
                  p = _mm256_maddubs_epi16(positive, _mm256_sign_epi8(w[r], four));
                } else {
                  p = _mm256_maddubs_epi16(magnitude[r],
                                           kSigns == Signs::kOfWeight ? _mm256_sign_epi8(four, w[r]) : four);
                }
                pairs[r][t] = k == 0 ? p : in_order(_mm256_add_epi16(pairs[r][t], p));
              }
            }
          }
#pragma GCC unroll 8
          for (int i = 0; i < 2 * NT; ++i) {
            const __m256i p = _mm256_madd_epi16(pairs[i / NT][i % NT], ones);
            isum[i / NT][i % NT] = g0 == 0 ? p : in_order(_mm256_add_epi32(isum[i / NT][i % NT], p));
          }
        }
        const int64_t line = (at * kSteps + step) * 8;
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) {
          const __m256 d = _mm256_broadcast_ss(x[t].d + b);
          __m256 sum = d;
          if constexpr (kNeedsSums<Format>)
            sum = _mm256_broadcast_ss(reinterpret_cast<const float*>(x[t].sums) + step * n + b);
#pragma GCC unroll 2
          for (int r = 0; r < 2; ++r) {
            __m256i dot = isum[r][t];
            if constexpr (Unpacked::kOffset != 0) dot = _mm256_sub_epi32(dot, _mm256_castps_si256(sum));
            acc[r][t] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(tile[r].sw + line), d),
                                        _mm256_cvtepi32_ps(dot), acc[r][t]);
            if constexpr (Format::kHasMin)
              acc[r][t] =
                  _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(tile[r].mw + line), d), sum, acc[r][t]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2 * NT; ++i) {
      __m256& sum = total[i / NT][i % NT];
      sum = begun ? _mm256_add_ps(sum, acc[i / NT][i % NT]) : acc[i / NT][i % NT];
    }
    begun = true;
  }
  // Empty segments are +0: of a row that has some, all that they can do is to make a sum of -0 +0.
  if (n < 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 2 * NT; ++i)
      total[i / NT][i % NT] = _mm256_add_ps(total[i / NT][i % NT], _mm256_setzero_ps());
  }
}

// Segments s0 .. s1-1 for NT rows of x, of which the first `used` are wanted: y holds the totals of those
// before.
template <class Format, int NT, Signs kSigns>
inline void tile_rows(const Tile<Format>* tile, int64_t n, int s0, int s1, const TileRow* x, int64_t used,
                      float* y, int64_t stride, const __m256i* mask) {
  __m256 total[2][NT];
  for (int r = 0; s0 > 0 && r < 2; ++r) {
    for (int64_t t = 0; t < NT; ++t)
      total[r][t] = _mm256_maskload_ps(y + std::min(t, used - 1) * stride + 8 * r, mask[r]);
  }
  tile_products<Format, NT, kSigns>(tile, n, s0, s1, x, total);
  for (int r = 0; r < 2; ++r) {
    for (int64_t t = 0; t < used; ++t) store_lanes(y + t * stride + 8 * r, mask[r], total[r][t]);
  }
}

// Rows m0 .. m1-1 of W times all rows of x; y points at column 0 of its first row.
template <class Format>
inline void quantized_rows(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const XRows& x,
                           float* y, int64_t stride) {
  const int64_t n = x.K / 32;
  const bool dense = row_bytes == static_cast<size_t>(x.K / Format::kBlockValues) * Format::kBlockBytes;
  const auto row = [&](int64_t m) { return w + static_cast<size_t>(m) * row_bytes; };
  if (x.count == 1 && dense && (n % 8 == 0 || (m1 - m0) * n % 8 == 0)) {
    using Codes = StepCodes<Format>;
    if (n % Codes::kGroup == 0) return step_product<Format, Codes>(w, row_bytes, m0, m1, x, y);
    if constexpr (Codes::kGroup > 1)
      return step_product<Format, PlainCodes<Format>>(w, row_bytes, m0, m1, x, y);
  }
  // Two rows of x at a time keep signed codes in registers, four the others.
  constexpr Signs kSigns = signs_of<Format>();
  constexpr int NT = kSigns == Signs::kNone ? 4 : 2;
  Tile<Format> tile[2];
  TileRow xs[kMostTokens + NT];
  int32_t sums[kNeedsSums<Format> ? Format::kSteps * kMostTokens * kMaxBlocks : 1];
  alignas(32) int8_t magnitudes[kSigns == Signs::kOfX ? kMostTokens * kMostMagnitudes : 1];
  const bool signs_of_x = kSigns == Signs::kOfX && x.K <= kMostMagnitudes;
  // Few rows of x: unpacking decides, and whole rows of W come from memory best.
  const int64_t most = x.count <= 32 ? Tile<Format>::kSegment : kTileBlocks, pieces = (n + most - 1) / most;
  const int per_piece = static_cast<int>(std::max<int64_t>(1, 8 / pieces));
  for (int64_t i0 = 0; i0 < x.count; i0 += kMostTokens) {
    const int64_t count = std::min(kMostTokens, x.count - i0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = x.row(i0 + i);
      int32_t* s = sums + (kNeedsSums<Format> ? i * n * Format::kSteps : 0);
      fill_sums<Format>(x.q.sums + r * 2 * n, n, n, s);
      xs[i] = {x.q.codes + r * x.K, magnitudes, x.q.d + r * n, s};
      if (!signs_of_x) continue;
      int8_t* magnitude = magnitudes + i * x.K;
      xs[i].magnitudes = magnitude;
      for (int64_t k = 0; k < x.K; k += 32)
        _mm256_store_si256(reinterpret_cast<__m256i*>(magnitude + k),
                           _mm256_abs_epi8(load32(xs[i].codes + k)));
    }
    for (int64_t i = count; i < count + NT; ++i) xs[i] = xs[count - 1];
    for (int s0 = 0; s0 < 8; s0 += per_piece) {
      const int s1 = std::min(8, s0 + per_piece);
      for (int64_t m = m0; m < m1; m += 16) {
        const int64_t rows = std::min<int64_t>(16, m1 - m);
        const __m256i mask[2] = {first_lanes(rows), first_lanes(rows - 8)};
        for (int64_t r = 0; r < 2; ++r) {
          const int64_t skip =
              r == 1 && rows > 8 ? 8 : 0;  // without a second eight, the first stand in for them
          tile[r].fill(row(m + skip), row_bytes, std::min<int64_t>(8, rows - skip), n, segment_begin(n, s0),
                       segment_begin(n, s1));
        }
        float* out = y + i0 * stride + m;
        const auto all_rows = [&](auto signs) {
          constexpr Signs kFrom = decltype(signs)::value;
          int64_t i = 0;
          for (; count - i > 2; i += NT)
            tile_rows<Format, NT, kFrom>(tile, n, s0, s1, xs + i, std::min<int64_t>(NT, count - i),
                                         out + i * stride, stride, mask);
          if (count > i)
            tile_rows<Format, 2, kFrom>(tile, n, s0, s1, xs + i, count - i, out + i * stride, stride, mask);
        };
        if (kSigns == Signs::kOfX && !signs_of_x) {
          all_rows(std::integral_constant<Signs, Signs::kOfWeight>());
        } else {
          all_rows(std::integral_constant<Signs, kSigns>());
        }
      }
    }
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
