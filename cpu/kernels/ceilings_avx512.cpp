#include <immintrin.h>

#include "cpu/kernels/ceilings.h"

namespace argon {

uint64_t multiply_int8_avx512(int64_t turns) {
  constexpr int kSums = 12;  // more than the instruction's latency times the ports that have it
  static_assert(kInt8PerTurnAvx512 == 64 * kSums);
  __m512i sum[kSums];
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  const __m512i x = _mm512_set1_epi8(3);
  for (int64_t t = 0; t < turns; ++t) {
    const __m512i w = _mm512_set1_epi32(static_cast<int>(t));
#pragma GCC unroll 12
    for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, x, w);
  }
  uint64_t all = 0;
  for (const __m512i& s : sum) all ^= static_cast<uint64_t>(_mm512_reduce_add_epi64(s));
  return all;
}

}  // namespace argon
