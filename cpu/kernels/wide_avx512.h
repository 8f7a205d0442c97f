// The 16-lane vectors of wide.h in AVX-512 (F, BW, DQ, VL, VNNI).
#pragma once

#if defined(ARGON_EMULATE_AVX512)
#include "cpu/tests/emulated_avx512.h"
#else
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "base/exact_math.h"
#include "base/isa_namespace.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

using Floats16 = __m512;
using Ints16 = __m512i;
using Codes32 = __m256i;

// vpdpbusd multiplies unsigned by signed: codes of W that can be negative are stored plus 128, and a dot
// starts from -128 times the sum of the codes of x.
inline constexpr bool kCodesNeedOffset = true;
// Rows of x that a tile of W is multiplied with at a time.
inline constexpr int kPromptRows = 8;
// Rows of W and of x that a product of floats takes at a time.
inline constexpr int kFloatRows = 4, kFloatColumns = 3;

inline Floats16 zero16() { return _mm512_setzero_ps(); }
inline Floats16 set16(float v) { return _mm512_set1_ps(v); }
inline Floats16 load16(const float* p) { return _mm512_loadu_ps(p); }
inline void store16(float* p, Floats16 v) { _mm512_storeu_ps(p, v); }
inline Floats16 add16(Floats16 a, Floats16 b) { return _mm512_add_ps(a, b); }
inline Floats16 sub16(Floats16 a, Floats16 b) { return _mm512_sub_ps(a, b); }
inline Floats16 mul16(Floats16 a, Floats16 b) { return _mm512_mul_ps(a, b); }
inline Floats16 fma16(Floats16 a, Floats16 b, Floats16 c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats16 fnma16(Floats16 a, Floats16 b, Floats16 c) { return _mm512_fnmadd_ps(a, b, c); }
inline Floats16 to_floats(Ints16 v) { return _mm512_cvtepi32_ps(v); }
// The first `count` floats of y become v, or y + v.
inline void store_some(float* y, Floats16 v, int count) {
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1u << count) - 1), v);
}
inline void add_some(float* y, Floats16 v, int count) {
  const __mmask16 m = static_cast<__mmask16>((1u << count) - 1);
  _mm512_mask_storeu_ps(y, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, y), v));
}

// The last four steps of fold32.
inline float fold16(Floats16 v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

inline float root32(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// 16 halves and 16 bfloat16s, exactly, subnormals as they are.
inline Floats16 load16_f16(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats16 load16_bf16(const uint8_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
inline float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// 32 codes.
inline Codes32 load_codes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Codes32 no_codes() { return _mm256_setzero_si256(); }
// 16 bytes to 32 nibbles, low nibbles first.
inline Codes32 nibbles(const uint8_t* p) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), _mm256_set1_epi8(15));
}
// Nibble `shift`/4 of each byte.
inline Codes32 nibble_of(Codes32 v, int shift) {
  return _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(15));
}
inline Codes32 minus(Codes32 v, int8_t offset) { return _mm256_sub_epi8(v, _mm256_set1_epi8(offset)); }
inline Codes32 look_up(Codes32 index, const int8_t* table) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_set_m128i(t, t), index);
}

// 16 rows of 8 groups of four codes, group-major: out[group][row][4], plus 128 when `offset`.
inline void interleave_rows(const Codes32* rows, bool offset, int8_t* out) {
  const __m256i flip = _mm256_set1_epi8(offset ? -128 : 0);
  for (int half = 0; half < 2; ++half) {
    const Codes32* r = rows + 8 * half;
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
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 64 * g),
                          _mm256_xor_si256(_mm256_permute2x128_si256(u[g], u[g + 4], 0x20), flip));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 64 * (g + 4)),
                          _mm256_xor_si256(_mm256_permute2x128_si256(u[g], u[g + 4], 0x31), flip));
    }
  }
}

// A pair of 16-bit sums of x's codes, times (low, high), added, in every lane.
inline Ints16 weighted_sums(const int16_t* sums, int low, int high) {
  int32_t pair;
  std::memcpy(&pair, sums, 4);
  const uint32_t weights = (static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high) << 16;
  return _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_set1_epi32(pair),
                             _mm512_set1_epi32(static_cast<int32_t>(weights)));
}

// Integer dots of kGroups groups of four codes: lane = row of a tile, w as interleave_rows left it. dot[t]
// starts from its value.
template <int kGroups, int NT>
inline void tile_dots(const int8_t* w, const int8_t* const* x, int64_t at, Ints16* dot) {
  __m512i wv[kGroups];
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) wv[g] = _mm512_loadu_si512(w + 64 * g);
#pragma GCC unroll 8
  for (int t = 0; t < NT; ++t) {
    __m512i odd = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      int32_t four;
      std::memcpy(&four, x[t] + at + 4 * g, 4);
      __m512i& sum = g % 2 == 0 ? dot[t] : odd;
      sum = _mm512_dpbusd_epi32(sum, wv[g], _mm512_set1_epi32(four));
    }
    dot[t] = _mm512_add_epi32(dot[t], odd);
  }
}

// Dots of 16 rows' blocks of 32 codes (plus 128 when `offset`) with one block of x, a lane being a row: low
// and high are those of the block's halves.
inline void row_dots(const Codes32* w, bool offset, Codes32 x, Ints16* low, Ints16* high) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(-128)), xv = _mm512_broadcast_i64x4(x);
  __m512i v[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    __m512i wv = _mm512_inserti64x4(_mm512_castsi256_si512(w[i]), w[8 + i], 1);
    if (offset) wv = _mm512_xor_si512(wv, flip);
    v[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), wv, xv);
  }
  // Each v[i] holds four quarters of 4 lanes: row i low, row i high, row 8+i low, row 8+i high. Sums inside
  // the quarters put row i (and 8+i) into lane i%4.
  __m512i s[2];
  for (int k = 0; k < 2; ++k) {
    const __m512i* q = v + 4 * k;
    const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(q[0], q[1]), _mm512_unpackhi_epi32(q[0], q[1]));
    const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(q[2], q[3]), _mm512_unpackhi_epi32(q[2], q[3]));
    s[k] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
  const __m512i lows = _mm512_shuffle_i32x4(s[0], s[1], 0x88), highs = _mm512_shuffle_i32x4(s[0], s[1], 0xdd);
  *low = _mm512_shuffle_i32x4(lows, lows, 0xd8);
  *high = _mm512_shuffle_i32x4(highs, highs, 0xd8);
}
inline Ints16 zero_ints() { return _mm512_setzero_si512(); }
inline Ints16 load_ints(const int32_t* p) { return _mm512_loadu_si512(p); }
inline void store_ints(int32_t* p, Ints16 v) { _mm512_storeu_si512(p, v); }
inline Ints16 add_ints(Ints16 a, Ints16 b) { return _mm512_add_epi32(a, b); }

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
