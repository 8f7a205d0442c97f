// Quantised rows eight blocks of 32 values at a time in AVX2: codes as bytes, steps as one vector.
//
// Unpack8<Format>::run(block, &g) reads the 8 blocks of 32 from `block` on (the stored block that holds the
// first; for formats with shorter stored blocks they follow each other, also over the end of a row). Codes
// are signed (kMaxCode 128 when -128 may occur), or, where kSigned is false, unsigned: code + kOffset, at
// most kMaxCode. Unsigned codes need no sign operation in a product, and products of kGroups groups of four
// fit 16 bits together (kGroups*2*127*kMaxCode < 32768); the offset is taken out again by the sum of the x
// codes. What code and step mean is said in formats/<type>.h, whose unpack32 gives the same numbers.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "formats/block.h"
#include "formats/iq2_xxs.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/mxfp4.h"
#include "formats/q2_0.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q4_k.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/q8_0.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Eight blocks of 32: lane i of a step is block i's.
struct Group8 {
  __m256i codes[8];
  __m256 sw[2], mw[2];
};

struct SignedCodes {
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0, kMaxCode = 128;
};
struct SignedCodesTo127 : SignedCodes {
  static constexpr int kMaxCode = 127;
};
template <int offset, int max_code>
struct UnsignedCodes {
  static constexpr bool kSigned = false;
  static constexpr int kOffset = offset, kMaxCode = max_code;
};

inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline uint32_t word_at(const uint8_t* p) {
  uint32_t w;
  std::memcpy(&w, p, 4);
  return w;
}

// An f16 by the processor's conversion, which is exact and takes subnormal halves as they are whatever DAZ
// says.
inline float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// Eight halves, `stride` bytes apart.
template <int stride>
inline __m256 halves_at(const uint8_t* p) {
  __m128i h = _mm_setzero_si128();
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p)), 0);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + stride)), 1);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 2 * stride)), 2);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 3 * stride)), 3);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 4 * stride)), 4);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 5 * stride)), 5);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 6 * stride)), 6);
  h = _mm_insert_epi16(h, static_cast<int>(load_u16(p + 7 * stride)), 7);
  return _mm256_cvtph_ps(h);
}

// 16 bytes to 32 nibbles, low nibbles first.
inline __m256i nibbles(const uint8_t* p) {
  const __m128i q = load16(p);
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), _mm256_set1_epi8(15));
}

// Indices below 16 through a table of 16 codes.
inline __m256i look_up(__m256i index, const int8_t* table) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table)), index);
}

// Byte i is -1 where bit i is set.
inline __m256i byte_mask(uint32_t bits) {
  const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), spread);
  return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

// Magnitudes, negated under the mask, plus an offset.
inline __m256i signed_plus(__m256i magnitude, __m256i mask, int offset) {
  const __m256i up = _mm256_sub_epi8(_mm256_set1_epi8(static_cast<char>(offset)), mask);
  return _mm256_add_epi8(_mm256_xor_si256(magnitude, mask), up);
}

// Eight small unsigned or signed bytes as float32.
inline __m256 bytes_to_float(uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}
inline __m256 signed_to_float(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)); }

// The 28 low bits of a word are four sign patterns of 7 bits; the eighth makes their number even
// (iq_grids.h).
inline uint32_t four_sign_patterns(uint32_t word) {
  const uint32_t seven = _pdep_u32(word, 0x7f7f7f7f);
  uint32_t parity = seven ^ (seven >> 4 & 0x0f0f0f0f);
  parity ^= parity >> 2 & 0x3f3f3f3f;
  parity ^= parity >> 1;
  return seven | (parity & 0x01010101) << 7;
}

// Any format by its own code, block by block.
template <class Format>
struct Unpack8 : SignedCodes {
  static void run(const uint8_t* block, Group8* g) {
    constexpr int kSubs = Format::kBlockValues / 32;
    alignas(32) float sw[2][8], mw[2][8];
    for (int i = 0; i < 8; ++i) {
      alignas(32) int8_t c[32];
      Steps s;
      Format::unpack32(block + (i / kSubs) * Format::kBlockBytes, i % kSubs, c, &s);
      g->codes[i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(c));
      for (int k = 0; k < Format::kSteps; ++k) sw[k][i] = s.sw[k], mw[k][i] = s.mw[k];
    }
    for (int k = 0; k < Format::kSteps; ++k)
      g->sw[k] = _mm256_load_ps(sw[k]), g->mw[k] = _mm256_load_ps(mw[k]);
  }
};

template <>
struct Unpack8<Q8_0> : SignedCodes {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = load32(block + 34 * i + 2);
    g->sw[0] = halves_at<34>(block);
  }
};

template <>
struct Unpack8<Q4_0> : UnsignedCodes<8, 15> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = nibbles(block + 18 * i + 2);
    g->sw[0] = halves_at<18>(block);
  }
};

template <>
struct Unpack8<Q4_1> : UnsignedCodes<0, 15> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = nibbles(block + 20 * i + 4);
    g->sw[0] = halves_at<20>(block);
    g->mw[0] = _mm256_xor_ps(halves_at<20>(block + 2), _mm256_set1_ps(-0.0f));
  }
};

inline __m256i fifth_bit(uint32_t bits) { return _mm256_and_si256(byte_mask(bits), _mm256_set1_epi8(16)); }

template <>
struct Unpack8<Q5_0> : UnsignedCodes<16, 31> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const uint8_t* b = block + 22 * i;
      g->codes[i] = _mm256_or_si256(nibbles(b + 6), fifth_bit(word_at(b + 2)));
    }
    g->sw[0] = halves_at<22>(block);
  }
};

template <>
struct Unpack8<Q5_1> : UnsignedCodes<0, 31> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const uint8_t* b = block + 24 * i;
      g->codes[i] = _mm256_or_si256(nibbles(b + 8), fifth_bit(word_at(b + 4)));
    }
    g->sw[0] = halves_at<24>(block);
    g->mw[0] = _mm256_xor_ps(halves_at<24>(block + 2), _mm256_set1_ps(-0.0f));
  }
};

template <>
struct Unpack8<IQ4_NL> : SignedCodesTo127 {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = look_up(nibbles(block + 18 * i + 2), kIq4Values);
    g->sw[0] = halves_at<18>(block);
  }
};

// Twice the values of 4-bit floats, plus 12.
alignas(16) inline constexpr int8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                     12, 11, 10, 9,  8,  6,  4,  0};

// Half of 2^(e - 127); exponents 0 and 1 give subnormals, which count as zero.
inline __m256 mxfp4_steps(const uint8_t* block) {
  __m128i e = _mm_cvtsi32_si128(block[0]);
  e = _mm_insert_epi8(e, block[17], 1);
  e = _mm_insert_epi8(e, block[34], 2);
  e = _mm_insert_epi8(e, block[51], 3);
  e = _mm_insert_epi8(e, block[68], 4);
  e = _mm_insert_epi8(e, block[85], 5);
  e = _mm_insert_epi8(e, block[102], 6);
  e = _mm_insert_epi8(e, block[119], 7);
  const __m256i less = _mm256_cvtepu8_epi32(_mm_subs_epu8(e, _mm_set1_epi8(1)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(less, 23));
}

template <>
struct Unpack8<MXFP4> : UnsignedCodes<12, 24> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = look_up(nibbles(block + 17 * i + 1), kFp4Codes);
    g->sw[0] = mxfp4_steps(block);
  }
};

inline __m256 q2_0_steps(const uint8_t* block) {
  const __m128i h = _mm_setr_epi16(
      static_cast<int16_t>(load_u16(block)), 0, static_cast<int16_t>(load_u16(block + 18)), 0,
      static_cast<int16_t>(load_u16(block + 36)), 0, static_cast<int16_t>(load_u16(block + 54)), 0);
  return _mm256_cvtph_ps(_mm_or_si128(h, _mm_slli_epi32(h, 16)));
}

template <>
struct Unpack8<Q2_0> : UnsignedCodes<1, 3> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i spread =
        _mm256_setr_epi64x(0x0101010100000000, 0x0303030302020202, 0x0505050504040404, 0x0707070706060606);
    const __m256i odd_words = _mm256_set1_epi32(0x00010010), low = _mm256_set1_epi16(0x0003),
                  high = _mm256_set1_epi16(0x0300);
    for (int i = 0; i < 8; ++i) {
      // Four copies of a byte: the first word keeps it, the second is moved right by 4; then two bits of each
      // byte.
      const __m128i q =
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 18 * (i / 2) + 2 + 8 * (i % 2)));
      const __m256i four = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(q), spread);
      const __m256i t = _mm256_srli_epi16(_mm256_mullo_epi16(four, odd_words), 4);
      g->codes[i] =
          _mm256_or_si256(_mm256_and_si256(t, low), _mm256_and_si256(_mm256_srli_epi16(t, 2), high));
    }
    g->sw[0] = q2_0_steps(block);
  }
};

// Scales and minima of Q4_K and Q5_K (k_scale_min of q4_k.h) as 8 bytes each.
inline void k_scales_mins(const uint8_t* s, uint64_t* scales, uint64_t* mins) {
  const uint32_t a = word_at(s), b = word_at(s + 4), c = word_at(s + 8);
  const uint32_t high_scales = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
  const uint32_t high_mins = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
  *scales = (a & 0x3f3f3f3f) | uint64_t{high_scales} << 32;
  *mins = (b & 0x3f3f3f3f) | uint64_t{high_mins} << 32;
}

inline void k_steps(const uint8_t* block, Group8* g) {
  uint64_t scales, mins;
  k_scales_mins(block + 4, &scales, &mins);
  g->sw[0] = _mm256_mul_ps(_mm256_set1_ps(half_at(block)), bytes_to_float(scales));
  g->mw[0] = _mm256_mul_ps(_mm256_set1_ps(half_at(block + 2)), bytes_to_float(mins));
}

template <>
struct Unpack8<Q4_K> : UnsignedCodes<0, 15> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i low = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; ++i) {
      const __m256i q = load32(block + 16 + 32 * i);
      g->codes[2 * i] = _mm256_and_si256(q, low);
      g->codes[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
    }
    k_steps(block, g);
  }
};

template <>
struct Unpack8<Q5_K> : UnsignedCodes<0, 31> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i low = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
    __m256i h = load32(block + 16);
    for (int i = 0; i < 4; ++i) {
      const __m256i q = load32(block + 48 + 32 * i);
      g->codes[2 * i] =
          _mm256_or_si256(_mm256_and_si256(q, low), _mm256_and_si256(_mm256_slli_epi16(h, 4), fifth));
      g->codes[2 * i + 1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(q, 4), low),
                                            _mm256_and_si256(_mm256_slli_epi16(h, 3), fifth));
      h = _mm256_srli_epi16(h, 2);
    }
    k_steps(block, g);
  }
};

// Even and odd bytes of 16: the first and the second half blocks' scales.
inline __m128i even_then_odd(__m128i bytes) {
  return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
}
// Steps d*scale of 16 signed bytes, first halves and second halves.
inline void two_steps(float d, __m128i scales, __m256* steps) {
  const __m128i s = even_then_odd(scales);
  steps[0] = _mm256_mul_ps(_mm256_set1_ps(d), signed_to_float(s));
  steps[1] = _mm256_mul_ps(_mm256_set1_ps(d), signed_to_float(_mm_srli_si128(s, 8)));
}

template <>
struct Unpack8<Q6_K> : UnsignedCodes<32, 63> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m256i a = load32(block + 64 * half), b = load32(block + 64 * half + 32),
                    h = load32(block + 128 + 32 * half);
      __m256i* c = g->codes + 4 * half;
      c[0] = _mm256_or_si256(_mm256_and_si256(a, low), _mm256_and_si256(_mm256_slli_epi16(h, 4), high));
      c[1] = _mm256_or_si256(_mm256_and_si256(b, low), _mm256_and_si256(_mm256_slli_epi16(h, 2), high));
      c[2] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a, 4), low), _mm256_and_si256(h, high));
      c[3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(b, 4), low),
                             _mm256_and_si256(_mm256_srli_epi16(h, 2), high));
    }
    two_steps(half_at(block + 208), load16(block + 192), g->sw);
  }
};

template <>
struct Unpack8<Q2_K> : UnsignedCodes<0, 3> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i two = _mm256_set1_epi8(3);
    for (int i = 0; i < 8; ++i)
      g->codes[i] = _mm256_and_si256(_mm256_srli_epi16(load32(block + 16 + 32 * (i / 4)), 2 * (i % 4)), two);
    const __m128i s = load16(block), low = _mm_set1_epi8(15);
    two_steps(half_at(block + 80), _mm_and_si128(s, low), g->sw);
    two_steps(half_at(block + 82), _mm_and_si128(_mm_srli_epi16(s, 4), low), g->mw);
  }
};

template <>
struct Unpack8<Q3_K> : UnsignedCodes<4, 7> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i two = _mm256_set1_epi8(3), third = _mm256_set1_epi8(4), h = load32(block);
    for (int i = 0; i < 8; ++i) {
      const __m256i q = _mm256_srli_epi16(load32(block + 32 + 32 * (i / 4)), 2 * (i % 4));
      const __m256i bit = i < 2 ? _mm256_slli_epi16(h, 2 - i) : _mm256_srli_epi16(h, i - 2);
      g->codes[i] = _mm256_or_si256(_mm256_and_si256(q, two), _mm256_and_si256(bit, third));
    }
    // Scale i of 16, 6 bits, minus 32: low nibbles in bytes 0-7 (then their high nibbles), high pairs in
    // bytes 8-11.
    const uint32_t a = word_at(block + 96), b = word_at(block + 100), c = word_at(block + 104);
    const uint32_t s0 = (a & 0x0f0f0f0f) | (c << 4 & 0x30303030),
                   s1 = (b & 0x0f0f0f0f) | (c << 2 & 0x30303030),
                   s2 = (a >> 4 & 0x0f0f0f0f) | (c & 0x30303030),
                   s3 = (b >> 4 & 0x0f0f0f0f) | (c >> 2 & 0x30303030);
    const __m128i s = _mm_setr_epi32(static_cast<int>(s0), static_cast<int>(s1), static_cast<int>(s2),
                                     static_cast<int>(s3));
    two_steps(half_at(block + 108), _mm_sub_epi8(s, _mm_set1_epi8(32)), g->sw);
  }
};

inline __m256 iq4_xs_steps(const uint8_t* block) {
  const uint64_t low = _pdep_u64(word_at(block + 4), 0x0f0f0f0f0f0f0f0f);
  const uint64_t high = _pdep_u64(load_u16(block + 2), 0x3030303030303030);
  const __m256 scales = _mm256_sub_ps(bytes_to_float(low | high), _mm256_set1_ps(32.0f));
  return _mm256_mul_ps(_mm256_set1_ps(half_at(block)), scales);
}

template <>
struct Unpack8<IQ4_XS> : SignedCodesTo127 {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) g->codes[i] = look_up(nibbles(block + 8 + 16 * i), kIq4Values);
    g->sw[0] = iq4_xs_steps(block);
  }
};

// Eight entries of a grid of four codes each.
template <class Grid>
inline __m256i gather8(const Grid& grid, __m256i index) {
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(grid), index, 4);
}
inline __m256i eight_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

inline __m256 iq3_s_steps(const uint8_t* block) {
  const __m256 s = bytes_to_float(_pdep_u64(word_at(block + 106), 0x0f0f0f0f0f0f0f0f));
  const __m256 odd = _mm256_add_ps(_mm256_add_ps(s, s), _mm256_set1_ps(1.0f));
  return _mm256_mul_ps(_mm256_set1_ps(half_at(block)), odd);
}

template <>
struct Unpack8<IQ3_S> : UnsignedCodes<15, 30> {
  static void run(const uint8_t* block, Group8* g) {
    const __m256i to_bit8 = _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1), bit8 = _mm256_set1_epi32(256);
    for (int i = 0; i < 8; ++i) {
      const __m256i h = _mm256_sllv_epi32(_mm256_set1_epi32(block[66 + i]), to_bit8);
      const __m256i index = _mm256_or_si256(eight_bytes(block + 2 + 8 * i), _mm256_and_si256(h, bit8));
      g->codes[i] = signed_plus(gather8(kGridIq3S, index), byte_mask(word_at(block + 74 + 4 * i)), kOffset);
    }
    g->sw[0] = iq3_s_steps(block);
  }
};

// d*(word>>28 + 1/2)*unit of 8 words.
inline __m256 word_steps(float d, __m256i words, float unit) {
  const __m256 s = _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(words, 28)), _mm256_set1_ps(0.5f));
  return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(d), s), _mm256_set1_ps(unit));
}

template <>
struct Unpack8<IQ3_XXS> : UnsignedCodes<62, 124> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const __m256i grid = gather8(kGridIq3Xxs, eight_bytes(block + 2 + 8 * i));
      g->codes[i] = signed_plus(grid, byte_mask(four_sign_patterns(word_at(block + 66 + 4 * i))), kOffset);
    }
    g->sw[0] = word_steps(half_at(block), load32(block + 66), 0.5f);
  }
};

// The second word of each pair: four sign patterns and a scale.
inline __m256i iq2_xxs_words(const uint8_t* block) {
  const __m256 a = _mm256_loadu_ps(reinterpret_cast<const float*>(block + 2)),
               b = _mm256_loadu_ps(reinterpret_cast<const float*>(block + 34));
  return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
}

// Four sign patterns of 7 bits of each word as bytes, whose eighth bits make the numbers of set bits even.
inline __m256i sign_bytes(__m256i words) {
  const auto field = [&](int i) {
    return _mm256_and_si256(_mm256_slli_epi32(words, i), _mm256_set1_epi32(0x7f << 8 * i));
  };
  const __m256i seven =
      _mm256_or_si256(_mm256_or_si256(field(0), field(1)), _mm256_or_si256(field(2), field(3)));
  const __m256i low = _mm256_set1_epi8(15);
  alignas(16) static constexpr int8_t kOdd[16] = {0,    -128, -128, 0,    -128, 0,    0,    -128,
                                                  -128, 0,    0,    -128, 0,    -128, -128, 0};
  const __m256i odd = _mm256_xor_si256(look_up(_mm256_and_si256(seven, low), kOdd),
                                       look_up(_mm256_and_si256(_mm256_srli_epi16(seven, 4), low), kOdd));
  return _mm256_or_si256(seven, odd);
}

template <>
struct Unpack8<IQ2_XXS> : UnsignedCodes<43, 86> {
  static void run(const uint8_t* block, Group8* g) {
    for (int i = 0; i < 8; ++i) {
      const uint8_t* q = block + 2 + 8 * i;
      const auto entry = [&](int k) { return static_cast<int64_t>(kGridIq2Xxs[q[k]]); };
      const __m256i grid = _mm256_setr_epi64x(entry(0), entry(1), entry(2), entry(3));
      g->codes[i] = signed_plus(grid, byte_mask(four_sign_patterns(word_at(q + 4))), kOffset);
    }
    g->sw[0] = word_steps(half_at(block), iq2_xxs_words(block), 0.25f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
