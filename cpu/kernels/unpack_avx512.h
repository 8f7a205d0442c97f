// Blocks of 16 rows of W for row_tiles.h: codes with four of each row side by side, steps with a lane for
// each row. Any format goes through its AVX2 unpacking (unpack_avx2.h) and is turned then; the types that
// published files use most are turned while four bits still hold two codes.
#pragma once

#include <algorithm>
#include <type_traits>

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

// 16 bytes of each of 16 rows with four bytes of each row side by side: lane m of groups[g] is bytes 4g ..
// 4g+3 of row m, from `at` on.
inline void turn16(const uint8_t* const* row, int64_t at, __m512i* groups) {
  __m512i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // quarter q is row 4q + i
    r[i] = _mm512_castsi128_si512(load16(row[i] + at));
    r[i] = _mm512_inserti32x4(r[i], load16(row[4 + i] + at), 1);
    r[i] = _mm512_inserti32x4(r[i], load16(row[8 + i] + at), 2);
    r[i] = _mm512_inserti32x4(r[i], load16(row[12 + i] + at), 3);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(r[0], r[1]), low23 = _mm512_unpacklo_epi32(r[2], r[3]);
  const __m512i high01 = _mm512_unpackhi_epi32(r[0], r[1]), high23 = _mm512_unpackhi_epi32(r[2], r[3]);
  groups[0] = _mm512_unpacklo_epi64(low01, low23);
  groups[1] = _mm512_unpackhi_epi64(low01, low23);
  groups[2] = _mm512_unpacklo_epi64(high01, high23);
  groups[3] = _mm512_unpackhi_epi64(high01, high23);
}

inline __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi32(0x0f0f0f0f)); }
inline __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi32(v, 4)); }
inline void store_codes(int8_t (*to)[4], __m512i v) { _mm512_storeu_si512(to, v); }
// Lane m is the half at byte `at` of row m.
inline Floats16 halves_of(const uint8_t* const* row, int64_t at) {
  alignas(32) uint16_t h[16];
  for (int m = 0; m < 16; ++m) std::memcpy(h + m, row[m] + at, 2);
  return load16_f16(reinterpret_cast<const uint8_t*>(h));
}

template <int kAdded, class Block>
inline void unpack_eight_q4_0(const uint8_t* const* row, Block* out) {
  const __m512i added = _mm512_set1_epi8(static_cast<char>(kAdded));
  for (int k = 0; k < 8; ++k) {
    __m512i groups[4];
    turn16(row, 18 * k + 2, groups);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m512i low = low_nibbles(groups[g]), high = high_nibbles(groups[g]);
      store_codes(out[k].codes[g], kAdded == 0 ? low : _mm512_add_epi8(low, added));
      store_codes(out[k].codes[4 + g], kAdded == 0 ? high : _mm512_add_epi8(high, added));
    }
    store16(out[k].sw[0], halves_of(row, 18 * k));
  }
}

// formats/q4_k.h: d, dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
template <class Block>
inline void unpack_eight_q4_k(const uint8_t* const* row, Block* out) {
  __m512i head[4];
  turn16(row, 0, head);
  alignas(64) uint32_t halves[16];
  _mm512_storeu_si512(halves, head[0]);
  alignas(32) uint16_t first[16], second[16];
  for (int m = 0; m < 16; ++m)
    first[m] = static_cast<uint16_t>(halves[m]), second[m] = static_cast<uint16_t>(halves[m] >> 16);
  const Floats16 d = load16_f16(reinterpret_cast<const uint8_t*>(first)),
                 dmin = load16_f16(reinterpret_cast<const uint8_t*>(second));
  const auto bits = [](__m512i v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi32(mask)); };
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i scales = _mm512_srli_epi32(head[1], 8 * j), minima = _mm512_srli_epi32(head[2], 8 * j),
                  rest = _mm512_srli_epi32(head[3], 8 * j);
    store16(out[j].sw[0], mul16(d, to_floats(bits(scales, 63))));
    store16(out[j].mw[0], mul16(dmin, to_floats(bits(minima, 63))));
    const __m512i scale = _mm512_or_si512(bits(rest, 15), bits(_mm512_srli_epi32(scales, 2), 48)),
                  minimum = _mm512_or_si512(bits(_mm512_srli_epi32(rest, 4), 15),
                                            bits(_mm512_srli_epi32(minima, 2), 48));
    store16(out[4 + j].sw[0], mul16(d, to_floats(scale)));
    store16(out[4 + j].mw[0], mul16(dmin, to_floats(minimum)));
  }
  for (int k = 0; k < 8; k += 2) {
    for (int half = 0; half < 2; ++half) {
      __m512i groups[4];
      turn16(row, 16 + 16 * (k + half), groups);
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        store_codes(out[k].codes[4 * half + g], low_nibbles(groups[g]));
        store_codes(out[k + 1].codes[4 * half + g], high_nibbles(groups[g]));
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
    if constexpr (std::is_same_v<Format, Q4_0>) {
      unpack_eight_q4_0<kAdded>(row, out + (b - b0));
    } else if constexpr (std::is_same_v<Format, Q4_K>) {
      unpack_eight_q4_k(row, out + (b - b0));
    } else {
      unpack_eight<Format, kAdded>(row, out + (b - b0));
    }
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
