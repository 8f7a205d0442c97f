// Routes matmul_avx2 and matmul_grouped_avx2, and the quantisation of their inputs. One instance of
// matmul_quantized_avx2.h per weight type; float types by sum32.
#include "cpu/kernels/matmul_quantized_avx2.h"
#include "formats/floats.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Eight weights as float32.
template <WeightType type>
inline __m256 load8(const uint8_t* row, int64_t k) {
  if constexpr (type == WeightType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(row) + k);
  } else {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * k));
    if constexpr (type == WeightType::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
}

template <WeightType type>
inline float load1(const uint8_t* row, int64_t k) {
  if constexpr (type == WeightType::kF32) {
    float v;
    std::memcpy(&v, row + 4 * k, 4);
    return v;
  } else {
    uint16_t h;
    std::memcpy(&h, row + 2 * k, 2);
    return type == WeightType::kF16 ? f16_to_f32(h) : bf16_to_f32(h);
  }
}

// NM rows of W times NT rows of x, 16 of the 32 lanes at a time: fewer loads per product than all lanes of
// one row.
template <WeightType type, int NM, int NT>
inline void float_block(const uint8_t* const* w, const float* const* x, int64_t K, float* const* y) {
  constexpr int kWidth = NM * NT == 1 ? 4 : 2;  // vectors of lanes at a time
  Lanes32 l[NM][NT];
  const int64_t whole = K / 32 * 32;
  for (int v0 = 0; v0 < 4; v0 += kWidth) {
    __m256 acc[NM][NT][kWidth];
#pragma GCC unroll 8
    for (int i = 0; i < NM * NT * kWidth; ++i) (&acc[0][0][0])[i] = _mm256_setzero_ps();
    for (int64_t k = 8 * v0; k < whole; k += 32) {
#pragma GCC unroll 4
      for (int v = 0; v < kWidth; ++v) {
        __m256 wv[NM];
#pragma GCC unroll 4
        for (int m = 0; m < NM; ++m) wv[m] = load8<type>(w[m], k + 8 * v);
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) {
          const __m256 xv = _mm256_loadu_ps(x[t] + k + 8 * v);
#pragma GCC unroll 4
          for (int m = 0; m < NM; ++m) acc[m][t][v] = _mm256_fmadd_ps(wv[m], xv, acc[m][t][v]);
        }
      }
    }
    for (int m = 0; m < NM; ++m) {
      for (int t = 0; t < NT; ++t) {
        for (int v = 0; v < kWidth; ++v) l[m][t].v[v0 + v] = acc[m][t][v];
      }
    }
  }
  for (int m = 0; m < NM; ++m) {
    for (int t = 0; t < NT; ++t) {
      if (whole < K) {
        alignas(32) float lane[32];
        for (int v = 0; v < 4; ++v) _mm256_store_ps(lane + 8 * v, l[m][t].v[v]);
        for (int64_t i = whole; i < K; ++i)
          lane[i - whole] = fma32(load1<type>(w[m], i), x[t][i], lane[i - whole]);
        for (int v = 0; v < 4; ++v) l[m][t].v[v] = _mm256_load_ps(lane + 8 * v);
      }
      y[t][m] = fold(l[m][t]);
    }
  }
}

template <WeightType type>
inline void float_rows(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const float* x,
                       const XRows& rows, float* y, int64_t stride) {
  int64_t i = 0, b0 = 0, b1 = 0;
  const auto take = [&](auto count) {
    constexpr int NT = decltype(count)::value, NM = NT == 1 ? 1 : 2;
    for (; i + NT <= rows.count; i += NT) {
      const float* xr[NT];
      float* yr[NT];
      for (int t = 0; t < NT; ++t) xr[t] = x + rows.row(i + t) * rows.K;
      const auto block = [&](auto height, int64_t m) {
        constexpr int kHeight = decltype(height)::value;
        const uint8_t* wr[kHeight];
        for (int j = 0; j < kHeight; ++j) wr[j] = w + static_cast<size_t>(m + j) * row_bytes;
        for (int t = 0; t < NT; ++t) yr[t] = y + (i + t) * stride + m;
        float_block<type, kHeight, NT>(wr, xr, rows.K, yr);
      };
      int64_t m = b0;
      for (; m + NM <= b1; m += NM) block(std::integral_constant<int, NM>(), m);
      for (; m < b1; ++m) block(std::integral_constant<int, 1>(), m);
    }
  };
  // Few rows of W at a time: they stay in the second-level cache while the rows of x go by.
  for (b0 = m0; b0 < m1; b0 = b1) {
    b1 = std::min(m1, b0 + kMatmulTile);
    i = 0;
    take(std::integral_constant<int, 3>());
    take(std::integral_constant<int, 1>());
  }
}

// Rows m0 .. m1-1 of w times the given rows of x.
inline void any_rows(const WeightMatrix& w, int64_t m0, int64_t m1, const float* x, const XRows& rows,
                     float* y, int64_t stride) {
  const uint8_t* data = static_cast<const uint8_t*>(w.data);
  const auto quantized = [&](auto format) {
    quantized_rows<decltype(format)>(data, w.row_bytes, m0, m1, rows, y, stride);
  };
  switch (w.type) {
    case WeightType::kF32:
      return float_rows<WeightType::kF32>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    case WeightType::kF16:
      return float_rows<WeightType::kF16>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    case WeightType::kBF16:
      return float_rows<WeightType::kBF16>(data, w.row_bytes, m0, m1, x, rows, y, stride);
    case WeightType::kQ8_0:
      return quantized(Q8_0());
    case WeightType::kQ4_0:
      return quantized(Q4_0());
    case WeightType::kQ4_1:
      return quantized(Q4_1());
    case WeightType::kQ5_0:
      return quantized(Q5_0());
    case WeightType::kQ5_1:
      return quantized(Q5_1());
    case WeightType::kQ2_K:
      return quantized(Q2_K());
    case WeightType::kQ3_K:
      return quantized(Q3_K());
    case WeightType::kQ4_K:
      return quantized(Q4_K());
    case WeightType::kQ5_K:
      return quantized(Q5_K());
    case WeightType::kQ6_K:
      return quantized(Q6_K());
    case WeightType::kIQ1_S:
      return quantized(IQ1_S());
    case WeightType::kIQ1_M:
      return quantized(IQ1_M());
    case WeightType::kIQ2_XXS:
      return quantized(IQ2_XXS());
    case WeightType::kIQ2_XS:
      return quantized(IQ2_XS());
    case WeightType::kIQ2_S:
      return quantized(IQ2_S());
    case WeightType::kIQ3_XXS:
      return quantized(IQ3_XXS());
    case WeightType::kIQ3_S:
      return quantized(IQ3_S());
    case WeightType::kIQ4_NL:
      return quantized(IQ4_NL());
    case WeightType::kIQ4_XS:
      return quantized(IQ4_XS());
    case WeightType::kMXFP4:
      return quantized(MXFP4());
    case WeightType::kNVFP4:
      return quantized(NVFP4());
    case WeightType::kQ2_0:
      return quantized(Q2_0());
    default:
      return;  // no such weights are ever bound (Backend::can_compute)
  }
}

}  // namespace ARGON_ISA_NS

void matmul_avx2(const MatmulArgs& a, int64_t begin, int64_t end) {
  if (!is_plain_float(a.w.type) && a.w.cols > 32 * kMaxBlocks) return matmul_ref(a, begin, end);
  const XRows rows{a.q, nullptr, a.T, a.w.cols};
  any_rows(a.w, begin * kMatmulTile, std::min(end * kMatmulTile, a.w.rows), a.x, rows, a.y, a.ldy);
}

void matmul_grouped_avx2(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  if (!is_plain_float(a.w.first.type) && a.w.first.cols > 32 * kMaxBlocks)
    return matmul_grouped_ref(a, begin, end);
  each_expert(a, begin, end,
              [](int64_t, int64_t, const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& rows,
                 const float* x, float* y) { any_rows(w, m0, m1, x, rows, y, w.rows); });
}

void quantize_avx2(const QuantizeArgs& a, int64_t begin, int64_t end) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (int64_t i = begin * (a.K / 32); i < end * (a.K / 32); ++i) {
    __m256 x[4];
    __m256i most = _mm256_setzero_si256();
    for (int v = 0; v < 4; ++v) {
      x[v] = _mm256_loadu_ps(a.x + i * 32 + 8 * v);
      most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(x[v]), magnitude));
    }
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    const uint32_t bits = static_cast<uint32_t>(_mm_cvtsi128_si32(m));
    const float max = f32_from_bits(bits);
    const bool zero = max < 0x1p-100f;
    a.q.d[i] = zero ? 0.0f : max / 127.0f;
    const __m256 up = _mm256_set1_ps(zero || bits >= 0x7f800000u ? 0.0f : 127.0f / max);
    // A block that is not finite gets codes 0: its values are masked, since infinity times 0 is not 0.
    const __m256 keep = _mm256_castsi256_ps(_mm256_set1_epi32(bits >= 0x7f800000u ? 0 : -1));
    __m256i c[4];
    for (int v = 0; v < 4; ++v) c[v] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_and_ps(x[v], keep), up));
    const __m256i lo = _mm256_permute4x64_epi64(_mm256_packs_epi32(c[0], c[1]), 0xd8);  // 16 values in order
    const __m256i hi = _mm256_permute4x64_epi64(_mm256_packs_epi32(c[2], c[3]), 0xd8);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(lo, hi), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(a.q.codes + i * 32), bytes);
    for (int h = 0; h < 2; ++h) {
      const __m256i pairs = _mm256_madd_epi16(h == 0 ? lo : hi, _mm256_set1_epi16(1));
      __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
      s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
      s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
      a.q.sums[i * 2 + h] = static_cast<int16_t>(_mm_cvtsi128_si32(s));
    }
  }
}

}  // namespace argon::ops
