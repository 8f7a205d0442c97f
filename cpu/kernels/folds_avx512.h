// fold32's last four steps for 16 vectors at once, and many dots by sum32 (vectors below 512 values, a
// multiple of 32): what attention and the indexer's scores share.
#pragma once

#include "cpu/kernels/wide_avx512.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

inline Floats16 max16(Floats16 a, Floats16 b) { return _mm512_max_ps(a, b); }

// Lane k of the result is op over the lanes of v[k], lanes j and j + 8 first, then j + 4, j + 2 and j + 1.
template <class Op>
inline Floats16 fold_each(const float (*v)[16], Op op) {
  const auto quarters = [](Floats16 a, Floats16 b, auto which) {
    return _mm512_castsi512_ps(
        _mm512_shuffle_i32x4(_mm512_castps_si512(a), _mm512_castps_si512(b), decltype(which)::value));
  };
  struct Low {
    enum { value = 0x44 };
  };
  struct High {
    enum { value = 0xee };
  };
  struct Even {
    enum { value = 0x88 };
  };
  struct Odd {
    enum { value = 0xdd };
  };
  Floats16 four[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // quarter k holds vector 4k + i
    const Floats16 a = load16(v[i]), b = load16(v[4 + i]), c = load16(v[8 + i]), d = load16(v[12 + i]);
    const Floats16 ab = op(quarters(a, b, Low()), quarters(a, b, High()));
    const Floats16 cd = op(quarters(c, d, Low()), quarters(c, d, High()));
    four[i] = op(quarters(ab, cd, Even()), quarters(ab, cd, Odd()));
  }
  Floats16 two[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512i a = _mm512_castps_si512(four[2 * i]), b = _mm512_castps_si512(four[2 * i + 1]);
    two[i] = op(_mm512_castsi512_ps(_mm512_unpacklo_epi64(a, b)),
                _mm512_castsi512_ps(_mm512_unpackhi_epi64(a, b)));
  }
  return op(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xdd));
}

// lanes[i][r]: the 32 lanes of query i and key r added to 16, i < NQ, r < 4, rows of `lanes` 16 vectors long.
// Queries are `ldq` apart, keys `ldk`. `ahead` (or null): n/32 cache lines to be fetched meanwhile.
template <int NQ>
inline void dot_lanes4(const float* q, int64_t ldq, const float* k, int64_t ldk, int64_t n, const char* ahead,
                       float (*lanes)[16]) {
  Floats16 acc[NQ][4][2];
#pragma GCC unroll 24
  for (int i = 0; i < NQ * 8; ++i) (&acc[0][0][0])[i] = zero16();
  for (int64_t at = 0; at < n; at += 32) {
    if (ahead != nullptr) _mm_prefetch(ahead + 2 * at, _MM_HINT_T0);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      Floats16 keys[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) keys[r] = load16(k + r * ldk + at + 16 * v);
#pragma GCC unroll 4
      for (int i = 0; i < NQ; ++i) {
        const Floats16 x = load16(q + i * ldq + at + 16 * v);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) acc[i][r][v] = fma16(x, keys[r], acc[i][r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < NQ; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) store16(lanes[16 * i + r], add16(acc[i][r][0], acc[i][r][1]));
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
