#include <immintrin.h>

#include "cpu/kernels/ceilings.h"

namespace argon {

uint64_t read_memory_avx2(const uint8_t* p, size_t n) {
  __m256i sum[8] = {};
  for (size_t i = 0; i < n; i += 256) {
    for (size_t k = 0; k < 8; ++k) {
      sum[k] = _mm256_xor_si256(sum[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + 32 * k)));
    }
  }
  uint64_t all = 0;
  for (const __m256i& s : sum) all ^= static_cast<uint64_t>(_mm256_extract_epi64(s, 0));
  return all;
}

uint64_t multiply_int8_avx2(int64_t turns) {
  __m256i sum[8] = {}, x[8];
  for (int k = 0; k < 8; ++k) x[k] = _mm256_set1_epi8(static_cast<char>(k + 1));
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t t = 0; t < turns; ++t) {
    const __m256i w = _mm256_set1_epi32(static_cast<int>(t));
    for (int k = 0; k < 8; ++k) {
      sum[k] = _mm256_add_epi32(sum[k], _mm256_madd_epi16(_mm256_maddubs_epi16(x[k], w), ones));
    }
  }
  uint64_t all = 0;
  for (const __m256i& s : sum) all ^= static_cast<uint64_t>(_mm256_extract_epi64(s, 0));
  return all;
}

}  // namespace argon
