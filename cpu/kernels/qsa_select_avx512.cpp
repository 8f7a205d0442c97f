// Route qsa_select_avx512: the indexer's scores 16 blocks at a time, and the selection by counting instead of
// sorting. Scores are sums of values that are not below zero, so that their bits are in the order of the
// scores.
#include "cpu/kernels/folds_avx512.h"
#include "cpu/kernels/select_tokens.h"
#include "ops/qsa_select/qsa_select.h"

namespace argon::ops {

void qsa_select_avx2(const QsaSelectArgs& a, int64_t begin, int64_t end);

inline namespace ARGON_ISA_NS {

constexpr int64_t kBlocks = 16;  // scored at a time

// Scores of blocks keys .. keys + 15*di.
inline Floats16 block_scores(const float* q, const float* keys, int64_t ni, int64_t di) {
  alignas(64) float lanes[2 * kBlocks][16];
  Floats16 score = zero16();
  const auto add_heads = [&]<int NQ>(int64_t h) {
    for (int64_t r = 0; r < kBlocks; r += 4)
      dot_lanes4<NQ>(q + h * di, di, keys + r * di, di, di, nullptr, lanes + r);
    for (int i = 0; i < NQ; ++i)
      score = add16(score, max16(fold_each(lanes + 16 * i, add16), zero16()));  // relu: +0 for -0 and NaN
  };
  int64_t h = 0;
  for (; h + 2 <= ni; h += 2) add_heads.template operator()<2>(h);
  for (; h < ni; ++h) add_heads.template operator()<1>(h);
  return score;
}

inline int64_t count_from(const int32_t* bits, int64_t n, int32_t least) {
  const __m512i from = _mm512_set1_epi32(least);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kBlocks)
    count += __builtin_popcount(_mm512_cmpge_epi32_mask(_mm512_loadu_si512(bits + i), from));
  return count;
}

// The `budget` largest of n scores that are not below zero, given as bits and followed by negative numbers up
// to a multiple of 16; ties to the lower index; ascending.
inline void keep_best(const int32_t* bits, int64_t n, int64_t budget, int32_t* kept) {
  int32_t least = 0;  // the largest number that `budget` of the bits reach
  for (int bit = 30; bit >= 0; --bit) {
    if (count_from(bits, n, least | 1 << bit) >= budget) least |= 1 << bit;
  }
  int64_t equal = budget - count_from(bits, n, least + 1);  // of those that have just this number
  const __m512i bound = _mm512_set1_epi32(least);
  alignas(64) int32_t index[kBlocks];
  for (int64_t i = 0; i < n; i += kBlocks) {
    const __m512i v = _mm512_loadu_si512(bits + i);
    unsigned mask = _mm512_cmpgt_epi32_mask(v, bound), ties = _mm512_cmpeq_epi32_mask(v, bound);
    for (; ties != 0 && equal > 0; ties &= ties - 1, --equal) mask |= ties & -ties;
    for (int k = 0; k < kBlocks; ++k) index[k] = static_cast<int32_t>(i) + k;
    _mm512_mask_compressstoreu_epi32(kept, static_cast<__mmask16>(mask), _mm512_loadu_si512(index));
    kept += __builtin_popcount(mask);
  }
}

}  // namespace ARGON_ISA_NS

void qsa_select_avx512(const QsaSelectArgs& a, int64_t begin, int64_t end) {
  if (a.di % 32 != 0 || a.di >= 512 || a.budget < kBlocks) return qsa_select_avx2(a, begin, end);
  const auto score = [&](const float* q, int64_t blocks, float* scores) {
    int64_t b = 0;
    for (; b + kBlocks <= blocks; b += kBlocks)
      store16(scores + b, block_scores(q, a.keys + b * a.di, a.ni, a.di));
    if (b < blocks)  // the last 16 once more, so that no key after the last is read
      store16(scores + blocks - kBlocks, block_scores(q, a.keys + (blocks - kBlocks) * a.di, a.ni, a.di));
    for (int64_t i = blocks; i < (blocks + kBlocks - 1) / kBlocks * kBlocks; ++i) scores[i] = -1.0f;
  };
  select_tokens(a, begin, end, kBlocks, score, [&](const float* scores, int64_t blocks, int32_t* kept) {
    keep_best(reinterpret_cast<const int32_t*>(scores), blocks, a.budget, kept);
  });
}

}  // namespace argon::ops
