// Blocks of 16 rows of W for row_tiles.h: codes with four of each row side by side, steps with a lane for
// each row. Any format goes through its AVX2 unpacking (unpack_avx2.h) and is turned then; the types that
// published files use most are turned while four bits still hold two codes.
#pragma once

#include <algorithm>

#include "cpu/kernels/unpack_codebooks_avx2.h"
#include "cpu/kernels/wide_avx512.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// A block of 32 of 16 rows: [group of four][row][4], plus `offset` of unpack_weights.
template <int steps, bool has_min>
struct alignas(64) WBlock {
  int8_t codes[8][16][4];
  float sw[steps][16], mw[steps][16];
};
template <int steps>
struct alignas(64) WBlock<steps, false> {
  int8_t codes[8][16][4];
  float sw[steps][16];
};

// 16 rows of 8 groups of four codes to [group][row][4].
inline void interleave_rows(const __m256i* rows, int8_t* out) {
  for (int half = 0; half < 2; ++half) {
    const __m256i* r = rows + 8 * half;
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
      u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
      u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
      u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    int8_t* to = out + 32 * half;
    for (int g = 0; g < 4; ++g) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 64 * g),
                         _mm256_permute2x128_si256(u[g], u[g + 4], 0x20));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 64 * (g + 4)),
                         _mm256_permute2x128_si256(u[g], u[g + 4], 0x31));
    }
  }
}

// Lane m of out[k] is lane k of rows[m], m < 8.
inline void turn8(const float (*rows)[8], float* const* out) {
  __m256i r[8], codes[16];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_castps_si256(_mm256_load_ps(rows[i]));
  for (int i = 0; i < 8; ++i) codes[i] = codes[i + 8] = r[i];
  alignas(64) int8_t turned[8][64];
  interleave_rows(codes, turned[0]);
  for (int k = 0; k < 8; ++k)
    _mm256_storeu_ps(out[k], _mm256_load_ps(reinterpret_cast<const float*>(turned[k])));
}

// What unpack_weights adds to codes: with kUnsigned what makes none negative, otherwise nothing.
template <class Format>
constexpr int offset_of() {
  return Unpack8<Format>::kSigned ? 128 : Unpack8<Format>::kOffset;
}

// Eight blocks of 16 rows, `row[m]` pointing at what holds the first of them.
template <class Format, int kAdded, class Block>
inline void unpack_eight(const uint8_t* const* row, Block* out) {
  constexpr int kSteps = Format::kSteps;
  __m256i codes[8][16];
  alignas(64) float sw[kSteps][16][8], mw[kSteps][16][8];
  const __m256i added = _mm256_set1_epi8(static_cast<char>(kAdded));
  for (int m = 0; m < 16; ++m) {
    Group8 g;
    Unpack8<Format>::run(row[m], &g);
    for (int k = 0; k < 8; ++k) codes[k][m] = kAdded == 0 ? g.codes[k] : _mm256_add_epi8(g.codes[k], added);
    for (int step = 0; step < kSteps; ++step) {
      _mm256_store_ps(sw[step][m], g.sw[step]);
      if constexpr (Format::kHasMin) _mm256_store_ps(mw[step][m], g.mw[step]);
    }
  }
  for (int k = 0; k < 8; ++k) interleave_rows(codes[k], &out[k].codes[0][0][0]);
  for (int step = 0; step < kSteps; ++step) {
    for (int half = 0; half < 16; half += 8) {
      float* to[8];
      for (int k = 0; k < 8; ++k) to[k] = out[k].sw[step] + half;
      turn8(sw[step] + half, to);
      if constexpr (Format::kHasMin) {
        for (int k = 0; k < 8; ++k) to[k] = out[k].mw[step] + half;
        turn8(mw[step] + half, to);
      }
    }
  }
}

// 16 rows of W of a format: blocks b0 .. b1-1 of n, at least 8 of them where n has 8; b0 is a multiple of 8.
// Absent rows repeat the last. kUnsigned: codes plus an offset that makes none negative, offset_of<Format>();
// otherwise as they are.
template <class Format, bool kUnsigned>
[[gnu::noinline]] void unpack_weights(const uint8_t* w, size_t row_bytes, int64_t rows, int64_t n, int64_t b0,
                                      int64_t b1, WBlock<Format::kSteps, Format::kHasMin>* out) {
  using Unpacked = Unpack8<Format>;
  constexpr int kSubs = Format::kBlockValues / 32;
  constexpr int kAdded = kUnsigned ? (Unpacked::kSigned ? 128 : 0) : -Unpacked::kOffset;
  const auto at_row = [&](int64_t m) { return w + static_cast<size_t>(std::min(m, rows - 1)) * row_bytes; };
  if (n < 8) {
    for (int64_t m = 0; m < kMatmulTile; ++m) {
      for (int64_t b = b0; b < b1; ++b) {
        alignas(32) int8_t c[32];
        Steps s;
        Format::unpack32(at_row(m) + (b / kSubs) * Format::kBlockBytes, static_cast<int>(b % kSubs), c, &s);
        const int offset = kUnsigned ? offset_of<Format>() : 0;
        for (int i = 0; i < 32; ++i) out[b - b0].codes[i / 4][m][i % 4] = static_cast<int8_t>(c[i] + offset);
        for (int step = 0; step < Format::kSteps; ++step) {
          out[b - b0].sw[step][m] = s.sw[step];
          if constexpr (Format::kHasMin) out[b - b0].mw[step][m] = s.mw[step];
        }
      }
    }
    return;
  }
  for (int64_t at = b0; at < b1; at += 8) {
    const int64_t b = std::min(at, n - 8);  // the last eight may overlap those before
    const uint8_t* row[kMatmulTile];
    for (int64_t m = 0; m < kMatmulTile; ++m)
      row[m] = at_row(m) + static_cast<size_t>(b / kSubs) * Format::kBlockBytes;
    unpack_eight<Format, kAdded>(row, out + (b - b0));
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
