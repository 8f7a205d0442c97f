// Dots of one row of x with eight blocks of 32 weights in AVX2, for the kernel of a step (step_avx2.h).
//
// StepCodes<Format> says how. PlainCodes: as unpack_avx2.h unpacks them, x as it is. The others bring halves
// of several blocks side by side into one register as they lie in the file, with x arranged alike (kGroup
// blocks of it together), so that unpacking takes fewer operations and values of one block meet before lanes
// move. Integer sums have no order, so a block's dot is the same.
#pragma once

#include "cpu/kernels/unpack_codebooks_avx2.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Sums of neighbours: a0+a1, a2+a3, b0+b1, b2+b3 in each half, as 32-bit lanes or as two 16-bit ones each.
template <bool kWords>
inline __m256i add_pairs(__m256i a, __m256i b) {
  const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
  const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
                odd = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd));
  return kWords ? _mm256_add_epi16(even, odd) : _mm256_add_epi32(even, odd);
}

// A level of a tree over 16-bit sums: level `level` of those that fit stays in 16 bits, the next one leaves
// them.
template <int level, int fitting>
inline __m256i add_level(__m256i a, __m256i b) {
  if constexpr (level <= fitting) return add_pairs<true>(a, b);
  if constexpr (level == fitting + 1) {
    const __m256i ones = _mm256_set1_epi16(1);
    a = _mm256_madd_epi16(a, ones);
    b = _mm256_madd_epi16(b, ones);
  }
  return add_pairs<false>(a, b);
}
template <int fitting>
inline __m256i last_level(__m256i v, int levels) {
  return levels <= fitting ? _mm256_madd_epi16(v, _mm256_set1_epi16(1)) : v;
}

// How often sums of two products can be doubled within 16 bits.
constexpr int fitting_levels(int max_code) {
  int levels = 0;
  while ((4 << levels) * 127 * max_code <= 32767) ++levels;
  return levels;
}

// 16 sums of two products for each of 8 blocks: lane i of `low` is the sum of block i's low half, of `high`
// that of the high half; with kWhole, low is that of the block.
template <int kMaxCode, bool kWhole>
inline void reduce8(const __m256i* v, __m256i* low, __m256i* high) {
  constexpr int kFit = fitting_levels(kMaxCode);
  __m256i a[4], b[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) a[i] = add_level<1, kFit>(v[2 * i], v[2 * i + 1]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) b[i] = add_level<2, kFit>(a[2 * i], a[2 * i + 1]);
  *low = _mm256_permute2x128_si256(b[0], b[1], 0x20);
  *high = _mm256_permute2x128_si256(b[0], b[1], 0x31);
  if constexpr (kWhole && kFit >= 3) {
    *low = last_level<kFit>(_mm256_add_epi16(*low, *high), 3);
  } else {
    *low = last_level<kFit>(*low, 2);
    *high = last_level<kFit>(*high, 2);
    if constexpr (kWhole) *low = _mm256_add_epi32(*low, *high);
  }
}

// One row of x as the kernel of a step reads it.
struct StepRow {
  const int8_t* codes;       // arranged in groups of kGroup blocks
  const int8_t* magnitudes;  // of codes, where kMagnitudes
  const float* d;
  const int32_t* sums;  // fill_sums, steps kSumStride apart
};

// Codes of either sign, or codes from 0 on (unpack_avx2.h).
template <class Format>
struct PlainCodes {
  using Unpacked = Unpack8<Format>;
  static constexpr int kGroup = 1, kOffset = Unpacked::kOffset;
  static constexpr bool kMagnitudes = false;
  static void arrange(const int8_t* from, int8_t* to) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), load32(from));
  }

  // dots[0], or a half block each; steps into g.
  static void run(const uint8_t* block, const int8_t* x, const int8_t*, Group8* g, __m256i* dots) {
    Unpacked::run(block, g);
    __m256i v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i w = g->codes[i], xi = load32(x + 32 * i);
      // |w| <= 128 and |x| <= 127, so a pair stays within 16 bits.
      v[i] = Unpacked::kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(xi, w))
                               : _mm256_maddubs_epi16(w, xi);
    }
    reduce8<Unpacked::kMaxCode, Format::kSteps == 1>(v, &dots[0], &dots[1]);
  }
};

// Two blocks side by side: codes[0] of a pair are the first halves of both, codes[1] the second ones. Codes
// are unsigned up to kMaxCode, minus kOffset; or (kMasked) magnitudes and masks of those to negate; or
// (kMagnitudes) of either sign.
template <class Pairs>
struct PairedCodes {
  static constexpr int kGroup = 2;
  static void arrange(const int8_t* from, int8_t* to) {
    const __m256i a = load32(from), b = load32(from + 32);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + 32), _mm256_permute2x128_si256(a, b, 0x31));
  }

  static void run(const uint8_t* block, const int8_t* x, const int8_t* magnitudes, Group8* g, __m256i* dots) {
    constexpr int kFit = fitting_levels(Pairs::kMaxCode);
    const Pairs pairs(block);
    pairs.steps(g);
    __m256i v[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m256i c[2], mask[2], p[2];
      pairs.codes(j, c, mask);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const __m256i xi = load32(x + 64 * j + 32 * h);
        if constexpr (Pairs::kMagnitudes) {
          // The codes of x have the sign, so that a table's codes need none; no code is -128.
          p[h] = _mm256_maddubs_epi16(load32(magnitudes + 64 * j + 32 * h), _mm256_sign_epi8(c[h], xi));
        } else if constexpr (Pairs::kMasked) {
          p[h] = _mm256_maddubs_epi16(c[h], _mm256_sub_epi8(_mm256_xor_si256(xi, mask[h]), mask[h]));
        } else {
          p[h] = _mm256_maddubs_epi16(c[h], xi);
        }
      }
      if constexpr (kFit >= 1) {
        v[j] = _mm256_add_epi16(p[0], p[1]);
      } else {
        const __m256i ones = _mm256_set1_epi16(1);
        v[j] = _mm256_add_epi32(_mm256_madd_epi16(p[0], ones), _mm256_madd_epi16(p[1], ones));
      }
    }
    __m256i all = add_level<3, kFit>(add_level<2, kFit>(v[0], v[1]), add_level<2, kFit>(v[2], v[3]));
    all = last_level<kFit>(all, 3);
    dots[0] = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
};

// Two stored blocks of 16 bytes of nibbles, low nibbles first.
inline void nibble_pair(const uint8_t* first, const uint8_t* second, __m256i* c) {
  const __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(first)), load16(second), 1);
  const __m256i low = _mm256_set1_epi8(15);
  c[0] = _mm256_and_si256(q, low);
  c[1] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
}

template <int max_code, int offset = 0>
struct UnsignedPairs {
  static constexpr int kMaxCode = max_code, kOffset = offset;
  static constexpr bool kMasked = false, kMagnitudes = false;
};

struct PairsQ4_0 : UnsignedPairs<15, 8> {
  const uint8_t* block;
  explicit PairsQ4_0(const uint8_t* b) : block(b) {}
  void codes(int j, __m256i* c, __m256i*) const { nibble_pair(block + 36 * j + 2, block + 36 * j + 20, c); }
  void steps(Group8* g) const { g->sw[0] = halves_at<18>(block); }
};

struct PairsIq4 {
  static constexpr int kMaxCode = 127, kOffset = 0;
  static constexpr bool kMasked = false, kMagnitudes = true;
};

struct PairsIQ4_NL : PairsIq4 {
  const uint8_t* block;
  explicit PairsIQ4_NL(const uint8_t* b) : block(b) {}
  void codes(int j, __m256i* c, __m256i*) const {
    nibble_pair(block + 36 * j + 2, block + 36 * j + 20, c);
    c[0] = look_up(c[0], kIq4Values);
    c[1] = look_up(c[1], kIq4Values);
  }
  void steps(Group8* g) const { g->sw[0] = halves_at<18>(block); }
};

struct PairsIQ4_XS : PairsIq4 {
  const uint8_t* block;
  explicit PairsIQ4_XS(const uint8_t* b) : block(b) {}
  void codes(int j, __m256i* c, __m256i*) const {
    nibble_pair(block + 8 + 32 * j, block + 24 + 32 * j, c);
    c[0] = look_up(c[0], kIq4Values);
    c[1] = look_up(c[1], kIq4Values);
  }
  void steps(Group8* g) const { g->sw[0] = iq4_xs_steps(block); }
};

struct PairsMXFP4 : UnsignedPairs<24, 12> {
  const uint8_t* block;
  explicit PairsMXFP4(const uint8_t* b) : block(b) {}
  void codes(int j, __m256i* c, __m256i*) const {
    nibble_pair(block + 34 * j + 1, block + 34 * j + 18, c);
    c[0] = look_up(c[0], kFp4Codes);
    c[1] = look_up(c[1], kFp4Codes);
  }
  void steps(Group8* g) const { g->sw[0] = mxfp4_steps(block); }
};

// Bytes b of each half (8 bytes a pattern) to masks of 16 codes: first and second halves of two blocks, whose
// four bytes of signs each lie one behind the other.
inline void sign_masks(const uint8_t* signs, __m256i* mask) {
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i all = _mm256_set1_epi64x(static_cast<int64_t>(long_at(signs)));
  const __m256i first = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0404040404040404, 0x0505050505050505);
  const __m256i second =
      _mm256_setr_epi64x(0x0202020202020202, 0x0303030303030303, 0x0606060606060606, 0x0707070707070707);
  mask[0] = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(all, first), bit), bit);
  mask[1] = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(all, second), bit), bit);
}

struct PairsIQ3_S {
  static constexpr int kMaxCode = 15, kOffset = 0;
  static constexpr bool kMasked = true, kMagnitudes = false;
  const uint8_t* block;
  explicit PairsIQ3_S(const uint8_t* b) : block(b) {}
  void codes(int j, __m256i* c, __m256i* mask) const {
    const __m256i q = _mm256_broadcastsi128_si256(load16(block + 2 + 16 * j));
    // Byte 1 and byte 2 of the word are the ninth bits of the two blocks.
    const __m256i h = _mm256_set1_epi32(static_cast<int>(word_at(block + 65 + 2 * j)));
    const __m256i bit8 = _mm256_set1_epi32(256);
    const auto entries = [&](__m256i bytes, __m256i shift) {
      const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(h, shift), bit8);
      return gather8(kGridIq3S, _mm256_or_si256(_mm256_shuffle_epi8(q, bytes), high));
    };
    const int n = -1;
    c[0] = entries(_mm256_setr_epi8(0, n, n, n, 1, n, n, n, 2, n, n, n, 3, n, n, n, 8, n, n, n, 9, n, n, n,
                                    10, n, n, n, 11, n, n, n),
                   _mm256_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11));
    c[1] = entries(_mm256_setr_epi8(4, n, n, n, 5, n, n, n, 6, n, n, n, 7, n, n, n, 12, n, n, n, 13, n, n, n,
                                    14, n, n, n, 15, n, n, n),
                   _mm256_setr_epi32(4, 5, 6, 7, 12, 13, 14, 15));
    sign_masks(block + 74 + 8 * j, mask);
  }
  void steps(Group8* g) const { g->sw[0] = iq3_s_steps(block); }
};

struct PairsIQ2_XXS {
  static constexpr int kMaxCode = 43, kOffset = 0;
  static constexpr bool kMasked = true, kMagnitudes = false;
  const uint8_t* block;
  __m256i words;  // of the blocks: four sign patterns of 7 bits and a scale
  alignas(32) uint8_t signs[32];

  explicit PairsIQ2_XXS(const uint8_t* b) : block(b), words(iq2_xxs_words(b)) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(signs), sign_bytes(words));
    asm volatile("" : : "r"(signs) : "memory");  // read back by broadcasts, which move no lanes
  }
  void codes(int j, __m256i* c, __m256i* mask) const {
    const uint8_t* q = block + 2 + 16 * j;
    const auto entry = [&](int i) { return static_cast<int64_t>(kGridIq2Xxs[q[i]]); };
    c[0] = _mm256_setr_epi64x(entry(0), entry(1), entry(8), entry(9));
    c[1] = _mm256_setr_epi64x(entry(2), entry(3), entry(10), entry(11));
    sign_masks(signs + 8 * j, mask);
  }
  void steps(Group8* g) const { g->sw[0] = word_steps(half_at(block), words, 0.25f); }
};

// Four blocks of 32 in one register, of each a quarter of the codes at a time.
struct QuadsQ2_0 {
  static constexpr int kGroup = 4, kOffset = 1;
  static constexpr bool kMagnitudes = false;
  // Codes 4i + s of four blocks to [s][block][i].
  static void arrange(const int8_t* from, int8_t* to) {
    const __m256i bytes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (int b = 0; b < 4; ++b) {
      alignas(32) int8_t of_block[32];
      const __m256i v = _mm256_shuffle_epi8(load32(from + 32 * b), bytes);
      _mm256_store_si256(reinterpret_cast<__m256i*>(of_block),
                         _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
      for (int s = 0; s < 4; ++s) std::memcpy(to + 32 * s + 8 * b, of_block + 8 * s, 8);
    }
  }

  static void run(const uint8_t* block, const int8_t* x, const int8_t*, Group8* g, __m256i* dots) {
    const __m256i two = _mm256_set1_epi8(3);
    __m256i v[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const uint8_t* b = block + 36 * h + 2;
      const __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(b)), load16(b + 18), 1);
      const int8_t* xh = x + 128 * h;
      const auto part = [&](__m256i c, int s) {
        return _mm256_maddubs_epi16(_mm256_and_si256(c, two), load32(xh + 32 * s));
      };
      v[h] = _mm256_add_epi16(
          _mm256_add_epi16(part(q, 0), part(_mm256_srli_epi16(q, 2), 1)),
          _mm256_add_epi16(part(_mm256_srli_epi16(q, 4), 2), part(_mm256_srli_epi16(q, 6), 3)));
    }
    const __m256i all = _mm256_madd_epi16(add_pairs<true>(v[0], v[1]), _mm256_set1_epi16(1));
    dots[0] = _mm256_permute4x64_epi64(all, 0xd8);
    g->sw[0] = q2_0_steps(block);
  }
};

template <class Pairs>
struct StepPairs : PairedCodes<Pairs> {
  static constexpr int kOffset = Pairs::kOffset;
  static constexpr bool kMagnitudes = Pairs::kMagnitudes;
};

template <class Format>
struct StepCodes : PlainCodes<Format> {};
template <>
struct StepCodes<Q4_0> : StepPairs<PairsQ4_0> {};
template <>
struct StepCodes<IQ4_NL> : StepPairs<PairsIQ4_NL> {};
template <>
struct StepCodes<IQ4_XS> : StepPairs<PairsIQ4_XS> {};
template <>
struct StepCodes<MXFP4> : StepPairs<PairsMXFP4> {};
template <>
struct StepCodes<IQ3_S> : StepPairs<PairsIQ3_S> {};
template <>
struct StepCodes<IQ2_XXS> : StepPairs<PairsIQ2_XXS> {};
template <>
struct StepCodes<Q2_0> : QuadsQ2_0 {};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
