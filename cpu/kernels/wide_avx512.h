// The 16-lane vectors of wide.h in AVX-512 (F, BW, DQ, VL, VNNI), as far as floats go; for quantised products
// see row_tiles.h.
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
// The first `count` floats of y become v.
inline void store_some(float* y, Floats16 v, int count) {
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1u << count) - 1), v);
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

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
