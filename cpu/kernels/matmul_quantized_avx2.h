// Products with quantised weights in AVX2, for any format (unpack_avx2.h).
//
// One row of x: step_avx2.h. More rows (prompt): 8 rows of W are unpacked into a tile, four codes of each row
// side by side, so that a lane is a row of W; each group of four x codes is broadcast to them. Codes of
// either sign (and x with them) become 16-bit words, two of each row side by side: then a multiply-add needs
// no sign operation and adds up 32 bits at once. Rows of x are taken in blocks that the second-level cache
// holds.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cpu/kernels/simd_avx2.h"
#include "cpu/kernels/step_avx2.h"
#include "cpu/kernels/unpack_lanes_avx2.h"
#include "cpu/kernels/x_rows.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Codes as words, or as bytes.
template <class Format>
constexpr bool kWords = TileCodes<Format>::kSigned;

// A pair of tiles takes as many segments as stay below so many blocks, so that it stays in the first-level
// cache.
template <class Format>
constexpr int64_t kTileBlocks = kWords<Format> ? 32 : 64;

// Rows of x taken together, so that their part of a tile's blocks stays in the second-level cache; of words,
// at most kWordBlocks blocks.
template <class Format>
constexpr int64_t kMostTokens = kWords<Format> ? 512 : 128;
constexpr int64_t kWordBlocks = 4096;

// Keeps the compiler from loading a value again for each use: processors load two vectors a cycle.
inline __m256i in_register(__m256i v) {
  asm("" : "+x"(v));
  return v;
}
// Keeps the compiler from turning a chain of sums into a tree, which needs more registers than there are.
inline __m256i in_order(__m256i v) { return in_register(v); }

// The bytes of four codes as two pairs of words: first and third, second and fourth.
inline void put_words(__m256i* to, __m256i fours) {
  _mm256_store_si256(to, _mm256_srai_epi16(_mm256_slli_epi16(fours, 8), 8));
  _mm256_store_si256(to + 1, _mm256_srai_epi16(fours, 8));
}

// Some segments of 8 rows of W: codes[block][group of 4 values][row][4], as words [even or odd][row][2] in
// place of [row][4]; steps and minima [block][step][row].
template <class Format>
struct Tile {
  static constexpr int64_t kSegment = (kMaxBlocks + 7) / 8;
  static constexpr int64_t kMost = (kSegment > kTileBlocks<Format> ? kSegment : kTileBlocks<Format>)+16;
  static constexpr int kCodeBytes = kWords<Format> ? 2 : 1;
  alignas(32) int8_t codes[kMost * 256 * kCodeBytes];
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
    if constexpr (kSubs < 8) {
      if (n < 8) {
        first = b0;
        for (int64_t b = b0; b < b1; ++b) fill_one(row, b);
        return;
      }
    }
    // Whole stored blocks; the last eight may overlap the eight before.
    first = std::min(kSubs == 1 ? b0 : b0 / kSubs * kSubs, n - 8);
    for (int64_t b = first; b < b1; b += 8) fill_eight(row, std::min(b, n - 8));
  }

 private:
  static constexpr int kSubs = Format::kBlockValues / 32, kSteps = Format::kSteps;

  // Group g of block `at` of the tile.
  void store(int64_t at, int g, __m256i four) {
    __m256i* to = reinterpret_cast<__m256i*>(codes + (at * 256 + 32 * g) * kCodeBytes);
    if constexpr (kWords<Format>) {
      put_words(to, four);
    } else {
      _mm256_store_si256(to, four);
    }
  }

  void fill_eight(const uint8_t* const* row, int64_t b) {
    if constexpr (TileCodes<Format>::kLanes) {
      const uint8_t* block[8];
      for (int i = 0; i < 8; ++i) {
        block[i] = row[i] + static_cast<size_t>(b / kSubs) * Format::kBlockBytes;
        prefetch(block[i] + ahead, Format::kBlockBytes);
      }
      TileCodes<Format>::run(block, codes + (b - first) * 256, sw + (b - first) * 8);
      return;
    }
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
      for (int i = 0; i < 8; ++i) store(b - first + k, i, _mm256_castps_si256(t[i]));
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
      store(b - first, i,
            _mm256_add_epi8(_mm256_castps_si256(t[i]), _mm256_set1_epi8(Unpack8<Format>::kOffset)));
    }
  }
};

// Sums of so many groups of four are taken in 16 bits, in as few parts of a step as fit: products of codes up
// to `most` with those of x.
template <class Format>
constexpr int parts_of_step(int most) {
  int parts = 1;
  for (constexpr int kPerStep = 8 / Format::kSteps; (kPerStep + parts - 1) / parts * 2 * 127 * most > 32767;)
    ++parts;
  return parts;
}
// Of unsigned codes; or, where these let no two groups together, of the codes that they stand for: a sum then
// starts from minus the offset's share, so that it may wrap on the way but ends within 16 bits.
template <class Format>
constexpr bool kFromBias = TileCodes<Format>::kOffset != 0 &&
                           parts_of_step<Format>(TileCodes<Format>::kMaxCode) == 8 / Format::kSteps;
template <class Format>
constexpr int kParts = parts_of_step<Format>(kFromBias<Format> ? std::max(TileCodes<Format>::kOffset,
                                                                          TileCodes<Format>::kMaxCode -
                                                                              TileCodes<Format>::kOffset)
                                                               : TileCodes<Format>::kMaxCode);
template <class Format>
constexpr int kTogether = (8 / Format::kSteps + kParts<Format> - 1) / kParts<Format>;

// 32 bits of each block of a row of x: what a step needs of sums (fill_sums, steps n apart), or those from
// which parts start, [block][step][part].
template <class Format>
constexpr int kSumsOfBlock = kFromBias<Format>                       ? Format::kSteps* kParts<Format>
                             : kNeedsSums<Format, TileCodes<Format>> ? Format::kSteps
                                                                     : 0;

// Minus the offset times the sums of the first and of the second two codes of a part's groups.
template <class Format>
inline void fill_biases(const int8_t* codes, int64_t n, int32_t* out) {
  constexpr int kAll = Format::kSteps * kParts<Format>, kPerStep = 8 / Format::kSteps;
  struct Groups {
    alignas(32) int32_t at[kTogether<Format>][8];  // [place in a part][part], or -1
    constexpr Groups() : at() {
      for (int i = 0; i < kTogether<Format>; ++i) {
        for (int part = 0; part < kAll; ++part) {
          const int g = part % kParts<Format> * kTogether<Format> + i;
          at[i][part] = g < kPerStep ? part / kParts<Format> * kPerStep + g : -1;
        }
      }
    }
  };
  static constexpr Groups kGroups;
  const __m256i offset = _mm256_set1_epi8(TileCodes<Format>::kOffset), mask = first_lanes(kAll);
  for (int64_t b = 0; b < n; ++b) {
    const __m256i pairs = _mm256_maddubs_epi16(offset, load32(codes + 32 * b));
    __m256i bias = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < kTogether<Format>; ++i) {
      const __m256i group = load32(kGroups.at[i]);
      const __m256i v = _mm256_permutevar8x32_epi32(pairs, group);
      bias = _mm256_sub_epi16(bias, _mm256_andnot_si256(_mm256_srai_epi32(group, 31), v));
    }
    if constexpr (kAll == 8) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + b * kAll), bias);
    } else {
      _mm256_maskstore_epi32(out + b * kAll, mask, bias);
    }
  }
}

// One row of x for the tile.
struct TileRow {
  const int8_t* codes;  // as they are; or words [block][even or odd][group], from the tile's first block on
  const float* d;
  const int32_t* sums;  // kSumsOfBlock
};

inline __m256i broadcast_four(const int8_t* codes) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(codes)));
}

// Dots of groups g0 .. g1-1 of a block of two tiles with that block of NT rows of x, `stride` bytes apart:
// one pointer for all, since those of each row would have to be fetched from memory for each block.
template <int NT>
inline void word_dots(const int8_t* const* w, int g0, int g1, const int8_t* x, int64_t stride,
                      __m256i (&isum)[2][NT]) {
#pragma GCC unroll 16
  for (int half = 2 * g0; half < 2 * g1; ++half) {
    __m256i words[2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r)
      words[r] = in_register(_mm256_load_si256(reinterpret_cast<const __m256i*>(w[r] + 32 * half)));
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t) {
      const __m256i pair = broadcast_four(x + t * stride + half % 2 * 32 + half / 2 * 4);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        const __m256i p = _mm256_madd_epi16(words[r], pair);
        isum[r][t] = half == 2 * g0 ? p : in_order(_mm256_add_epi32(isum[r][t], p));
      }
    }
  }
}

// The same of step `step` of block b with unsigned codes as bytes.
template <class Format, int NT>
inline void byte_dots(const int8_t* const* w, int step, const TileRow* x, int64_t b, __m256i (&isum)[2][NT]) {
  constexpr int kPerStep = 8 / Format::kSteps;
  const int g0 = step * kPerStep, g1 = g0 + kPerStep;
  const __m256i scale = _mm256_set1_epi16(TileCodes<Format>::kScale);
#pragma GCC unroll 8
  for (int first = g0; first < g1; first += kTogether<Format>) {
    __m256i pairs[2][NT];
    if constexpr (kFromBias<Format>) {
      const int64_t part =
          b * kSumsOfBlock<Format> + step * kParts<Format> + (first - g0) / kTogether<Format>;
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t) pairs[0][t] = pairs[1][t] = _mm256_set1_epi32(x[t].sums[part]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTogether<Format>; ++i) {
      const int g = first + i;
      if (g >= g1) break;
      __m256i bytes[2];
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r)
        bytes[r] = in_register(_mm256_load_si256(reinterpret_cast<const __m256i*>(w[r] + 32 * g)));
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t) {
        const __m256i four = broadcast_four(x[t].codes + b * 32 + 4 * g);
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {
          const __m256i p = _mm256_maddubs_epi16(bytes[r], four);
          pairs[r][t] = !kFromBias<Format> && i == 0 ? p : in_order(_mm256_add_epi16(pairs[r][t], p));
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2 * NT; ++i) {
      const __m256i p = _mm256_madd_epi16(pairs[i / NT][i % NT], scale);
      isum[i / NT][i % NT] = first == g0 ? p : in_order(_mm256_add_epi32(isum[i / NT][i % NT], p));
    }
  }
}

// Adds segments s0 .. s1-1 of two tiles' rows, a lane each, to the totals of NT rows of x.
template <class Format, int NT>
inline void tile_products(const Tile<Format>* tile, int64_t n, int s0, int s1, const TileRow* x,
                          __m256 (&total)[2][NT]) {
  using Codes = TileCodes<Format>;
  constexpr int kSteps = Format::kSteps, kPerStep = 8 / kSteps, kCodeBytes = Tile<Format>::kCodeBytes;
  int64_t b = segment_begin(n, s0);
  const int64_t x0 = kWords<Format> ? b : 0;
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
        const int8_t* const w[2] = {tile[0].codes + at * 256 * kCodeBytes,
                                    tile[1].codes + at * 256 * kCodeBytes};
        __m256i isum[2][NT];
        if constexpr (kWords<Format>) {
          word_dots<NT>(w, step * kPerStep, (step + 1) * kPerStep, x->codes + (b - x0) * 64,
                        x[1].codes - x[0].codes, isum);
        } else {
          byte_dots<Format, NT>(w, step, x, b, isum);
        }
        const int64_t line = (at * kSteps + step) * 8;
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) {
          const __m256 d = _mm256_broadcast_ss(x[t].d + b);
          __m256 sum = d;
          if constexpr (kSumsOfBlock<Format> == kSteps)
            sum = _mm256_broadcast_ss(reinterpret_cast<const float*>(x[t].sums) + step * n + b);
#pragma GCC unroll 2
          for (int r = 0; r < 2; ++r) {
            __m256i dot = isum[r][t];
            if constexpr (Codes::kOffset != 0 && !kFromBias<Format>)
              dot = _mm256_sub_epi32(dot, _mm256_castps_si256(sum));
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
template <class Format, int NT>
inline void tile_rows(const Tile<Format>* tile, int64_t n, int s0, int s1, const TileRow* x, int64_t used,
                      float* y, int64_t stride, const __m256i* mask) {
  __m256 total[2][NT];
  for (int r = 0; s0 > 0 && r < 2; ++r) {
    for (int64_t t = 0; t < NT; ++t)
      total[r][t] = _mm256_maskload_ps(y + std::min(t, used - 1) * stride + 8 * r, mask[r]);
  }
  tile_products<Format, NT>(tile, n, s0, s1, x, total);
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
  Tile<Format> tile[2];
  TileRow xs[kMostTokens<Format> + 1];
  int32_t sums[kSumsOfBlock<Format> > 0 ? kSumsOfBlock<Format> * kMostTokens<Format> * kMaxBlocks : 1];
  alignas(32) int8_t words[kWords<Format> ? kWordBlocks * 64 : 1];
  // Few rows of x: unpacking decides, and whole rows of W come from memory best.
  const int64_t most = x.count <= 32 ? Tile<Format>::kSegment : kTileBlocks<Format>,
                pieces = (n + most - 1) / most;
  const int per_piece = static_cast<int>(std::max<int64_t>(1, 8 / pieces));
  const int64_t piece = std::min(n, per_piece * ((n + 7) / 8));  // blocks at most
  const int64_t together =
      kWords<Format> ? std::min(kMostTokens<Format>, kWordBlocks / piece) : kMostTokens<Format>;
  for (int64_t i0 = 0; i0 < x.count; i0 += together) {
    const int64_t count = std::min(together, x.count - i0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = x.row(i0 + i);
      int32_t* s = sums + i * n * kSumsOfBlock<Format>;
      if constexpr (kFromBias<Format>) {
        fill_biases<Format>(x.q.codes + r * x.K, n, s);
      } else {
        fill_sums<Format, TileCodes<Format>>(x.q.sums + r * 2 * n, n, n, s);
      }
      xs[i] = {x.q.codes + r * x.K, x.q.d + r * n, s};
    }
    for (int s0 = 0; s0 < 8; s0 += per_piece) {
      const int s1 = std::min(8, s0 + per_piece);
      const int64_t b0 = segment_begin(n, s0), b1 = segment_begin(n, s1);
      if constexpr (kWords<Format>) {
        for (int64_t i = 0; i < count; ++i) {
          const int8_t* codes = x.q.codes + x.row(i0 + i) * x.K + b0 * 32;
          __m256i* to = reinterpret_cast<__m256i*>(words + i * piece * 64);
          xs[i].codes = words + i * piece * 64;
          for (int64_t b = 0; b < b1 - b0; ++b) put_words(to + 2 * b, load32(codes + 32 * b));
        }
      }
      xs[count] = xs[count - 1];  // a single row is taken twice
      for (int64_t m = m0; m < m1; m += 16) {
        const int64_t rows = std::min<int64_t>(16, m1 - m);
        const __m256i mask[2] = {first_lanes(rows), first_lanes(rows - 8)};
        for (int64_t r = 0; r < 2; ++r) {
          const int64_t skip =
              r == 1 && rows > 8 ? 8 : 0;  // without a second eight, the first stand in for them
          tile[r].fill(row(m + skip), row_bytes, std::min<int64_t>(8, rows - skip), n, b0, b1);
        }
        float* out = y + i0 * stride + m;
        // As few times as possible through the tile, with alike many rows of x.
        for (int64_t i = 0, took = 0, times = (count + 3) / 4; i < count; i += took, --times) {
          took = (count - i + times - 1) / times;
          const auto take = [&](auto NT) {
            tile_rows<Format, decltype(NT)::value>(tile, n, s0, s1, xs + i, took, out + i * stride, stride,
                                                   mask);
          };
          if (took == 4) {
            take(std::integral_constant<int, 4>());
          } else if (took == 3) {
            take(std::integral_constant<int, 3>());
          } else {
            take(std::integral_constant<int, 2>());
          }
        }
      }
    }
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
