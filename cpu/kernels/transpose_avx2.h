// Transposition of eight vectors of eight lanes in AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/isa_namespace.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// out lane r of vector c = lane c of row r, which lies at row(r).
template <class Row>
inline void transpose8_rows(Row row, __m256* out) {
  __m256 t[8], u[8];
  for (int i = 0; i < 4; ++i) {
    const __m256 a = _mm256_loadu_ps(row(2 * i)), b = _mm256_loadu_ps(row(2 * i + 1));
    u[2 * i] = _mm256_unpacklo_ps(a, b);
    u[2 * i + 1] = _mm256_unpackhi_ps(a, b);
  }
  for (int i = 0; i < 8; i += 4) {
    t[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
    t[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
    t[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
    t[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}

// The same with rows `stride` floats apart.
inline void transpose8(const float* rows, int64_t stride, __m256* out) {
  transpose8_rows([=](int i) { return rows + i * stride; }, out);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
