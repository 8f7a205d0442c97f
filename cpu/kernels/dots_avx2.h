// Many dots by sum32 at once (vectors below 512 values, a multiple of 32): what attention and the indexer's
// scores share.
#pragma once

#include "cpu/kernels/simd_avx2.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Lanes j + 4, then j + 2, then j + 1 of eight vectors: the rest of fold32 once lanes j + 16 and j + 8 are
// added.
inline __m256 fold8(const __m256* e) {
  __m256 two[4], one[2];
  for (int i = 0; i < 4; ++i) {
    const __m256 a = e[2 * i], b = e[2 * i + 1];
    two[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }
  for (int i = 0; i < 2; ++i) {
    const __m256 a = two[2 * i], b = two[2 * i + 1];
    one[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
  }
  // Halves: vectors 0, 2, 4, 6 and 1, 3, 5, 7.
  const __m256 s =
      _mm256_add_ps(_mm256_shuffle_ps(one[0], one[1], 0x88), _mm256_shuffle_ps(one[0], one[1], 0xdd));
  return _mm256_permutevar8x32_ps(s, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// out[i*ldo + r] = dot of query i and key r, i < NQ, r < 8: keys `ldk` apart.
template <int NQ>
inline void dots8(const float* const* q, const float* k, int64_t ldk, int64_t n, float* out, int64_t ldo) {
  constexpr int kKeys = 2;
  __m256 eight[NQ][8];
  for (int r = 0; r < 8; r += kKeys) {
    __m256 half[2][NQ][kKeys][2];  // lanes 0-15, then 16-31
    for (int h = 0; h < 2; ++h) {
      __m256 acc[NQ][kKeys][2];
#pragma GCC unroll 16
      for (int i = 0; i < NQ * kKeys * 2; ++i) (&acc[0][0][0])[i] = _mm256_setzero_ps();
      const float *k0 = k + r * ldk, *k1 = k0 + ldk;
      for (int64_t at = 16 * h; at < n; at += 32) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          const __m256 a = _mm256_loadu_ps(k0 + at + 8 * v), b = _mm256_loadu_ps(k1 + at + 8 * v);
#pragma GCC unroll 4
          for (int i = 0; i < NQ; ++i) {
            const __m256 x = _mm256_loadu_ps(q[i] + at + 8 * v);
            acc[i][0][v] = _mm256_fmadd_ps(x, a, acc[i][0][v]);
            acc[i][1][v] = _mm256_fmadd_ps(x, b, acc[i][1][v]);
          }
        }
      }
      for (int i = 0; i < NQ * kKeys * 2; ++i) (&half[h][0][0][0])[i] = (&acc[0][0][0])[i];
    }
    for (int i = 0; i < NQ; ++i) {
      for (int j = 0; j < kKeys; ++j) {
        eight[i][r + j] = _mm256_add_ps(_mm256_add_ps(half[0][i][j][0], half[1][i][j][0]),
                                        _mm256_add_ps(half[0][i][j][1], half[1][i][j][1]));
      }
    }
  }
  for (int i = 0; i < NQ; ++i) _mm256_storeu_ps(out + i * ldo, fold8(eight[i]));
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
