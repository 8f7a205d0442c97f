// Eight blocks of 32 of eight rows at once in AVX2, a lane being a row, for types whose codes a table holds:
// indices and signs are moved between lanes in place of the codes, which are more.
//
// TileCodes<Format> says what a tile's codes are: as unpack_avx2.h unpacks them; or, with kLanes, what
// run(block, codes, sw) writes: the stored block of each of eight rows to codes[block of 32][group of
// 4][row][4] and steps [block of 32][row]. An unsigned code u stands for kScale*u - kOffset.
#pragma once

#include "cpu/kernels/transpose_avx2.h"
#include "cpu/kernels/unpack_codebooks_avx2.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

template <class Format>
struct TileCodes : Unpack8<Format> {
  static constexpr bool kLanes = false;
  static constexpr int kScale = 1;
};

// 32 bytes at `at` of each of eight rows: byte j of row i to out[8*j + i].
inline void transpose_bytes(const uint8_t* const* row, int at, uint8_t* out) {
  __m256i pairs[8], fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i a = load32(row[2 * i] + at), b = load32(row[2 * i + 1] + at);
    pairs[2 * i] = _mm256_unpacklo_epi8(a, b);
    pairs[2 * i + 1] = _mm256_unpackhi_epi8(a, b);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // rows 4*(i/2) on, low or high bytes
    const __m256i a = pairs[i / 2 * 4 + i % 2], b = pairs[i / 2 * 4 + 2 + i % 2];
    fours[2 * i] = _mm256_unpacklo_epi16(a, b);
    fours[2 * i + 1] = _mm256_unpackhi_epi16(a, b);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto put = [&](int j, __m256i v) {
      _mm_store_si128(reinterpret_cast<__m128i*>(out + 8 * j), _mm256_castsi256_si128(v));
      _mm_store_si128(reinterpret_cast<__m128i*>(out + 8 * j + 128), _mm256_extracti128_si256(v, 1));
    };
    put(4 * i, _mm256_unpacklo_epi32(fours[i], fours[i + 4]));
    put(4 * i + 2, _mm256_unpackhi_epi32(fours[i], fours[i + 4]));
  }
}

// The steps of eight rows, a row's eight as one vector, to [block][row].
inline void put_steps(const float* of_rows, float* sw) {
  __m256 t[8];
  transpose8(of_rows, 8, t);
  for (int k = 0; k < 8; ++k) _mm256_store_ps(sw + 8 * k, t[k]);
}

// Byte `which` of each lane, four times.
inline __m256i four_times(__m256i lanes, int which) {
  const __m256i lane =
      _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
  return _mm256_shuffle_epi8(lanes, _mm256_add_epi8(lane, _mm256_set1_epi8(static_cast<char>(which))));
}

// Four bits of a byte, the low or the high ones, as masks of four codes.
inline __m256i nibble_mask(__m256i four, int high) {
  const __m256i bit = _mm256_set1_epi32(high != 0 ? static_cast<int>(0x80402010) : 0x08040201);
  return _mm256_cmpeq_epi8(_mm256_and_si256(four, bit), bit);
}

// (code + 15)/2 of the positive codes 1, 3, ... 15: exclusive or with 15 makes it that of the negative one.
struct HalvesIq3S {
  uint32_t entry[512];
  constexpr HalvesIq3S() : entry() {
    // No bit moves to a neighbour.
    for (size_t i = 0; i < 512; ++i) entry[i] = (kGridIq3S[i] + 0x0f0f0f0fu) >> 1;
  }
};
inline constexpr HalvesIq3S kHalvesIq3S;

template <>
struct TileCodes<IQ3_S> : UnsignedCodes<15, 15> {
  static constexpr bool kLanes = true;
  static constexpr int kScale = 2;

  static void run(const uint8_t* const* block, int8_t* codes, float* sw) {
    alignas(32) uint8_t index[512], high[256];
    alignas(32) float steps[64];
    __m256 signs[8];
    for (int i = 0; i < 8; ++i) _mm256_store_ps(steps + 8 * i, iq3_s_steps(block[i]));
    put_steps(steps, sw);
    transpose_bytes(block, 2, index);
    transpose_bytes(block, 34, index + 256);
    transpose_bytes(block, 66, high);
    transpose8_rows([&](int i) { return reinterpret_cast<const float*>(block[i] + 74); }, signs);
    const __m256i bit8 = _mm256_set1_epi32(256), all = _mm256_set1_epi8(15);
    for (int k = 0; k < 8; ++k) {
      const __m256i h = eight_bytes(high + 8 * k), s = _mm256_castps_si256(signs[k]);
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) {
        const __m256i ninth = _mm256_and_si256(_mm256_slli_epi32(h, 8 - g), bit8);
        const __m256i u =
            gather8(kHalvesIq3S.entry, _mm256_or_si256(eight_bytes(index + 64 * k + 8 * g), ninth));
        const __m256i negative = nibble_mask(four_times(s, g / 2), g % 2);
        _mm256_store_si256(reinterpret_cast<__m256i*>(codes + 256 * k + 32 * g),
                           _mm256_xor_si256(u, _mm256_and_si256(negative, all)));
      }
    }
  }
};

template <>
struct TileCodes<IQ2_XXS> : UnsignedCodes<43, 86> {
  static constexpr bool kLanes = true;
  static constexpr int kScale = 1;

  static void run(const uint8_t* const* block, int8_t* codes, float* sw) {
    alignas(32) float steps[64], of_rows[64];
    __m256 words[8];
    for (int i = 0; i < 8; ++i) {
      const __m256i w = iq2_xxs_words(block[i]);
      _mm256_store_ps(of_rows + 8 * i, _mm256_castsi256_ps(w));
      _mm256_store_ps(steps + 8 * i, word_steps(half_at(block[i]), w, 0.25f));
    }
    put_steps(steps, sw);
    transpose8(of_rows, 8, words);
    for (int k = 0; k < 8; ++k) {
      const __m256i signs = sign_bytes(_mm256_castps_si256(words[k]));
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const auto entry = [&](int i) { return static_cast<int64_t>(kGridIq2Xxs[block[i][2 + 8 * k + j]]); };
        const __m256 a = _mm256_castsi256_ps(_mm256_setr_epi64x(entry(0), entry(1), entry(4), entry(5))),
                     b = _mm256_castsi256_ps(_mm256_setr_epi64x(entry(2), entry(3), entry(6), entry(7)));
        const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
                      high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
        const __m256i four = four_times(signs, j);
        __m256i* to = reinterpret_cast<__m256i*>(codes + 256 * k + 64 * j);
        _mm256_store_si256(to, signed_plus(low, nibble_mask(four, 0), kOffset));
        _mm256_store_si256(to + 1, signed_plus(high, nibble_mask(four, 1), kOffset));
      }
    }
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
