// More types for unpack_avx2.h: those whose codes come from codebooks of eight values, and NVFP4.
#pragma once

#include "cpu/kernels/unpack_avx2.h"
#include "formats/iq1_m.h"
#include "formats/iq1_s.h"
#include "formats/iq2_s.h"
#include "formats/iq2_xs.h"
#include "formats/nvfp4.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

inline uint64_t long_at(const uint8_t* p) {
  uint64_t w;
  std::memcpy(&w, p, 8);
  return w;
}

// The entries that four 16-bit indices name.
template <class Grid>
inline __m256i four_entries(const Grid& grid, uint64_t index) {
  const auto entry = [&](int k) { return static_cast<int64_t>(grid[index >> 16 * k & 0xffff]); };
  return _mm256_setr_epi64x(entry(0), entry(1), entry(2), entry(3));
}

// Four bytes, and high bits for each, as 16-bit numbers.
inline uint64_t bytes_and_high(const uint8_t* low, uint32_t high, uint64_t places) {
  return _pdep_u64(word_at(low), 0x00ff00ff00ff00ff) | _pdep_u64(high, places);
}

// Steps d*(s+1/2)/4 of nibbles s, low ones those of the first halves.
inline void half_steps(float d, uint64_t nibbles, __m256* steps) {
  const __m256 d8 = _mm256_set1_ps(d), half = _mm256_set1_ps(0.5f), unit = _mm256_set1_ps(0.25f);
  for (int i = 0; i < 2; ++i) {
    const __m256 s = _mm256_add_ps(bytes_to_float(nibbles >> 4 * i & 0x0f0f0f0f0f0f0f0f), half);
    steps[i] = _mm256_mul_ps(_mm256_mul_ps(d8, s), unit);
  }
}

// Steps d*(2*s+1)/8 of eight integers.
inline __m256 odd_steps(float d, __m256i s) {
  const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
  return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(odd)), _mm256_set1_ps(0.125f));
}

template <>
struct Unpack8<IQ2_XS> : UnsignedCodes<43, 86> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t words = long_at(block + 2 + 8 * i);
      const uint32_t signs = static_cast<uint32_t>(_pext_u64(words, 0xfe00fe00fe00fe00));
      const __m256i grid = four_entries(kGridIq2Xs, words & 0x01ff01ff01ff01ff);
      g->codes[i] = signed_plus(grid, byte_mask(four_sign_patterns(signs)), kOffset);
    }
    half_steps(half_at(block), long_at(block + 66), g->sw);
  }
};

template <>
struct Unpack8<IQ2_S> : UnsignedCodes<43, 86> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t index = bytes_and_high(block + 2 + 4 * i, block[66 + i], 0x0300030003000300);
      g->codes[i] =
          signed_plus(four_entries(kGridIq2S, index), byte_mask(word_at(block + 34 + 4 * i)), kOffset);
    }
    half_steps(half_at(block), long_at(block + 74), g->sw);
  }
};

template <>
struct Unpack8<IQ1_S> : UnsignedCodes<9, 18> {
  static void run(const uint8_t* block, Group8* g) {
    const __m128i h = load16(block + 34);
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = load_u16(block + 34 + 2 * i);
      const __m256i grid =
          four_entries(kGridIq1, bytes_and_high(block + 2 + 4 * i, word & 0xfff, 0x0700070007000700));
      g->codes[i] = _mm256_add_epi8(grid, _mm256_set1_epi8(word & 0x8000u ? kOffset - 1 : kOffset + 1));
    }
    const __m256i scale =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu16_epi32(h), 12), _mm256_set1_epi32(7));
    g->sw[0] = odd_steps(half_at(block), scale);
  }
};

template <>
struct Unpack8<IQ1_M> : UnsignedCodes<9, 18> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i eight_times = _mm256_setr_epi64x(0, 0x0808080808080808, 0, 0x0808080808080808);
    for (int i = 0; i < 8; ++i) {
      const uint64_t words = bytes_and_high(block + 4 * i, load_u16(block + 32 + 2 * i), 0x0f000f000f000f00);
      // The sign of a shift, 0 or 1, in every byte of its eight codes.
      const __m256i sign =
          _mm256_srli_epi64(_mm256_cvtepu16_epi64(_mm_cvtsi64_si128(static_cast<int64_t>(words))), 11);
      const __m256i spread = _mm256_shuffle_epi8(sign, eight_times);
      const __m256i shift = _mm256_sub_epi8(_mm256_set1_epi8(kOffset + 1), _mm256_add_epi8(spread, spread));
      g->codes[i] = _mm256_add_epi8(four_entries(kGridIq1, words & 0x07ff07ff07ff07ff), shift);
    }
    const uint64_t scales = long_at(block + 48);
    const uint16_t d_bits = static_cast<uint16_t>(_pext_u64(scales, 0xf000f000f000f000));
    const float d = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(d_bits)));
    for (int half = 0; half < 2; ++half) {
      const uint64_t bytes =
          _pdep_u64(_pext_u64(scales, uint64_t{0x01c701c701c701c7} << 3 * half), 0x0707070707070707);
      g->sw[half] = odd_steps(d, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
    }
  }
};

template <>
struct Unpack8<NVFP4> : UnsignedCodes<12, 24> {
  static void run(const uint8_t* block, Group8* g) {
    const __m128i low = _mm_set1_epi8(15);
    for (int i = 0; i < 8; ++i) {
      const __m128i q = load16(block + 36 * (i / 2) + 4 + 16 * (i % 2));
      const __m128i a = _mm_and_si128(q, low), b = _mm_and_si128(_mm_srli_epi16(q, 4), low);
      g->codes[i] = look_up(_mm256_set_m128i(_mm_unpackhi_epi64(a, b), _mm_unpacklo_epi64(a, b)), kFp4Codes);
    }
    // An E4M3 code moved to where a half has exponent and mantissa is the half of 1/256 its value.
    const __m128i scales = even_then_odd(
        _mm_setr_epi32(static_cast<int>(word_at(block)), static_cast<int>(word_at(block + 36)),
                       static_cast<int>(word_at(block + 72)), static_cast<int>(word_at(block + 108))));
    const __m128i used = _mm_andnot_si128(_mm_cmpeq_epi8(scales, _mm_set1_epi8(0x7f)),
                                          _mm_and_si128(scales, _mm_set1_epi8(0x7f)));
    for (int half = 0; half < 2; ++half) {
      const __m128i eight = _mm_cvtepu8_epi16(half == 0 ? used : _mm_srli_si128(used, 8));
      g->sw[half] = _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(eight, 7)), _mm256_set1_ps(128.0f));
    }
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
