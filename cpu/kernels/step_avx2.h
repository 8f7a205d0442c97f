// The product of one row of x with rows of quantised weights in AVX2: writing, one token a step.
//
// 8 rows of W lie one behind the other in the file and are read in that order, eight blocks of 32 at a time:
// eight integer dots and eight steps come out as vectors (step_codes_avx2.h) and are kept. Then the kept
// values are transposed, so that a lane is a row of W, and each lane goes through its segments in the order
// of the contract.
#pragma once

#include <algorithm>

#include "cpu/kernels/simd_avx2.h"
#include "cpu/kernels/step_codes_avx2.h"
#include "cpu/kernels/transpose_avx2.h"
#include "cpu/kernels/x_rows.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxBlocks =
    1024;  // in a row: K up to 32768; the scratch arrays on the stack are made for it

// The processor's own prefetching ends with a page; this goes on. It may name memory that is not there.
constexpr int kPrefetchAhead = 2048;
inline void prefetch(const uint8_t* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
}

inline __m256i first_lanes(int64_t rows) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(rows)), lane);
}

// The first lanes, as the mask says. Masked stores are microcode on some processors.
inline void store_lanes(float* y, __m256i mask, __m256 v) {
  const int lanes = _mm256_movemask_ps(_mm256_castsi256_ps(mask));
  if (lanes == 255) {
    _mm256_storeu_ps(y, v);
  } else {
    alignas(32) float all[8];
    _mm256_store_ps(all, v);
    for (int i = 0; (lanes >> i & 1) != 0; ++i) y[i] = all[i];
  }
}

// What a step needs of the sum of its x codes: times the offset as an integer, or, with a minimum, as a
// float. Codes: Unpack8<Format> or one of step_codes_avx2.h.
template <class Format, class Codes = Unpack8<Format>>
constexpr bool kNeedsSums = Format::kHasMin || Codes::kOffset != 0;

template <class Format, class Codes = Unpack8<Format>>
inline void fill_sums(const int16_t* sums, int64_t n, int64_t stride, int32_t* out) {
  if constexpr (kNeedsSums<Format, Codes>) {
    for (int step = 0; step < Format::kSteps; ++step) {
      for (int64_t b = 0; b < n; ++b) {
        const int32_t sum = Format::kSteps == 1 ? sums[2 * b] + sums[2 * b + 1] : sums[2 * b + step];
        out[step * stride + b] =
            Format::kHasMin ? static_cast<int32_t>(f32_bits(static_cast<float>(sum))) : Codes::kOffset * sum;
      }
    }
  }
}

constexpr int64_t kSumStride = kMaxBlocks + 8;

struct StepScratch {
  alignas(32) int32_t sums[2 * kSumStride];
  alignas(32) int8_t codes[kSumStride * 32], magnitudes[kSumStride * 32];
  float d[kSumStride];
};

// Row i of x: the arrays of matmul.h, continued cyclically by 8 blocks when a row is no multiple of 8, codes
// arranged as Codes wants them (n a multiple of its group).
template <class Format, class Codes>
inline StepRow step_row(const XRows& x, int64_t i, StepScratch* s) {
  const int64_t n = x.K / 32, row = x.row(i), all = n % 8 == 0 ? n : n + 8;
  StepRow r{x.q.codes + row * x.K, s->magnitudes, x.q.d + row * n, s->sums};
  fill_sums<Format, Codes>(x.q.sums + row * 2 * n, n, kSumStride, s->sums);
  if (Codes::kGroup > 1 || all > n) {
    for (int64_t b = 0, from = 0; b < all; b += Codes::kGroup) {
      Codes::arrange(r.codes + 32 * from, s->codes + 32 * b);
      if ((from += Codes::kGroup) == n) from = 0;
    }
    r.codes = s->codes;
  }
  if constexpr (Codes::kMagnitudes) {
    for (int64_t b = 0; b < all; ++b) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(s->magnitudes + 32 * b),
                         _mm256_abs_epi8(load32(r.codes + 32 * b)));
    }
  }
  if (all == n) return r;
  for (int64_t b = 0, from = 0; b < all; ++b) {
    s->d[b] = r.d[from];
    for (int step = 0; step < Format::kSteps; ++step)
      s->sums[step * kSumStride + b] = s->sums[step * kSumStride + from];
    if (++from == n) from = 0;
  }
  r.d = s->d;
  return r;
}

// y of `rows` rows of W (at most 8, rows*n a multiple of 8), a lane each, for one row of x. The rows lie one
// behind the other.
template <class Format, class Codes>
inline __m256 step_rows(const uint8_t* w, int64_t rows, int64_t n, const StepRow& x) {
  constexpr int kSubs = Format::kBlockValues / 32, kSteps = Format::kSteps;
  // Dots, steps*d and minima*d of all blocks, one row behind the other.
  alignas(32) float dot[kSteps][8 * kMaxBlocks + 8], sw[kSteps][8 * kMaxBlocks + 8];
  alignas(32) float mw[Format::kHasMin ? kSteps : 1][Format::kHasMin ? 8 * kMaxBlocks + 8 : 8];
  int64_t xb = 0;
  for (int64_t at = 0; at < rows * n; at += 8) {
    Group8 g;
    const uint8_t* block = w + (at / kSubs) * Format::kBlockBytes;
    prefetch(block + kPrefetchAhead, 8 / kSubs * Format::kBlockBytes);
    __m256i half[2];
    Codes::run(block, x.codes + 32 * xb, x.magnitudes + 32 * xb, &g, half);
    const __m256 d = _mm256_loadu_ps(x.d + xb);
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (Codes::kOffset != 0)
        half[step] = _mm256_sub_epi32(half[step], load32(x.sums + step * kSumStride + xb));
      _mm256_storeu_ps(dot[step] + at, _mm256_cvtepi32_ps(half[step]));
      _mm256_storeu_ps(sw[step] + at, _mm256_mul_ps(g.sw[step], d));
      if constexpr (Format::kHasMin) _mm256_storeu_ps(mw[step] + at, _mm256_mul_ps(g.mw[step], d));
    }
    xb += 8;
    while (xb >= n) xb -= n;
  }
  __m256 total = _mm256_setzero_ps();
  __m256 D[kSteps][8], S[kSteps][8], M[kSteps][8];
  int64_t b = 0;
  for (int s = 0; s < 8; ++s) {
    __m256 acc = _mm256_setzero_ps();
    for (const int64_t end = segment_begin(n, s + 1); b < end; ++b) {
      const int64_t lane = b % 8;
      if (lane == 0) {
        for (int step = 0; step < kSteps; ++step) {
          transpose8(dot[step] + b, n, D[step]);
          transpose8(sw[step] + b, n, S[step]);
          if constexpr (Format::kHasMin) transpose8(mw[step] + b, n, M[step]);
        }
      }
      for (int step = 0; step < kSteps; ++step) {
        acc = _mm256_fmadd_ps(S[step][lane], D[step][lane], acc);
        if constexpr (Format::kHasMin) {
          const __m256 sum = _mm256_castsi256_ps(_mm256_set1_epi32(x.sums[step * kSumStride + b]));
          acc = _mm256_fnmadd_ps(M[step][lane], sum, acc);
        }
      }
    }
    total = s == 0 ? acc : _mm256_add_ps(total, acc);
  }
  return total;
}

// Rows m0 .. m1-1 of W, which lie one behind the other, (m1-m0)*n a multiple of 8 or n one, times row 0 of x.
template <class Format, class Codes>
inline void step_product(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const XRows& x,
                         float* y) {
  const int64_t n = x.K / 32;
  StepScratch scratch;
  const StepRow xr = step_row<Format, Codes>(x, 0, &scratch);
  for (int64_t m = m0; m < m1; m += 8) {
    const int64_t rows = std::min<int64_t>(8, m1 - m);
    store_lanes(y + m, first_lanes(rows),
                step_rows<Format, Codes>(w + static_cast<size_t>(m) * row_bytes, rows, n, xr));
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
