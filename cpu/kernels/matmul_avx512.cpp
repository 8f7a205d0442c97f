// Routes matmul_avx512 and matmul_grouped_avx512: row_tiles.h with VNNI, and float weights by
// float_rows_wide.h.
#include "cpu/kernels/float_rows_wide.h"
#include "cpu/kernels/row_tiles.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Four codes of a row of x are broadcast and multiplied with those of 16 rows of W.
struct VnniEngine {
  static constexpr bool kUnsigned = true;

  void shape(int, int) {}

  template <int R, int kSteps, bool kHasMin, class Steps>
  void open(const WBlock<kSteps, kHasMin>*, const XGroup<Steps>&, int64_t) {}

  template <int R, int kSteps, bool kHasMin, class Steps>
  void block(const WBlock<kSteps, kHasMin>* w, const XGroup<Steps>& x, int64_t at, int64_t, Floats16* acc) {
    constexpr int kGroups = 8 / kSteps;
    const Steps& xs = x.steps[at];
    const int8_t* codes = x.codes + codes_at(at, R);
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      __m512i wv[kGroups];
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) wv[g] = _mm512_loadu_si512(w[at].codes[step * kGroups + g]);
      const Floats16 sw = load16(w[at].sw[step]);
      // Rows of x side by side: a chain of dots is eight long, and the next one begins too far behind it.
#pragma GCC unroll 8
      for (int t0 = 0; t0 < R; t0 += 4) {
        constexpr int kSide = 4;
        __m512i dot[kSide];
#pragma GCC unroll 4
        for (int i = 0; i < kSide; ++i)
          dot[i] =
              kHasMin || t0 + i >= R ? _mm512_setzero_si512() : _mm512_set1_epi32(xs.extra[step][t0 + i]);
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
          for (int i = 0; i < kSide; ++i) {
            if (t0 + i >= R) continue;
            int32_t four;
            std::memcpy(&four, codes + (t0 + i) * 64 + 4 * (step * kGroups + g), 4);
            dot[i] = _mm512_dpbusd_epi32(dot[i], wv[g], _mm512_set1_epi32(four));
          }
        }
#pragma GCC unroll 4
        for (int i = 0; i < kSide; ++i) {
          if (t0 + i >= R) continue;
          const Floats16 d = set16(xs.d[t0 + i]);
          acc[t0 + i] = fma16(mul16(sw, d), to_floats(dot[i]), acc[t0 + i]);
          if constexpr (kHasMin) {
            const Floats16 sum = _mm512_castsi512_ps(_mm512_set1_epi32(xs.extra[step][t0 + i]));
            acc[t0 + i] = fnma16(mul16(load16(w[at].mw[step]), d), sum, acc[t0 + i]);
          }
        }
      }
    }
  }
};

// Rows m0 .. m1-1 of w, a tile at a time, which stays in the second-level cache while the rows of x go by.
inline void float_tiles(const WeightMatrix& w, int64_t m0, int64_t m1, const float* x, const XRows& rows,
                        float* y, int64_t stride) {
  const uint8_t* data = static_cast<const uint8_t*>(w.data);
  for (int64_t m = m0; m < m1; m += kMatmulTile) {
    const int64_t stop = std::min(m + kMatmulTile, m1);
    switch (w.type) {
      case WeightType::kF32:
        float_rows<WeightType::kF32>(data, w.row_bytes, m, stop, x, rows, y, stride);
        break;
      case WeightType::kF16:
        float_rows<WeightType::kF16>(data, w.row_bytes, m, stop, x, rows, y, stride);
        break;
      default:
        float_rows<WeightType::kBF16>(data, w.row_bytes, m, stop, x, rows, y, stride);
    }
  }
}

}  // namespace ARGON_ISA_NS

void matmul_avx512(const MatmulArgs& a, int64_t begin, int64_t end) {
  if (!is_plain_float(a.w.type)) return matmul_units<VnniEngine>(a, begin, end);
  const XRows rows{a.q, nullptr, a.T, a.w.cols};
  float_tiles(a.w, begin * kMatmulTile, std::min(end * kMatmulTile, a.w.rows), a.x, rows, a.y, a.ldy);
}

void matmul_grouped_avx512(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  if (!is_plain_float(a.w.first.type)) return grouped_units<VnniEngine>(a, begin, end);
  each_expert(a, begin, end,
              [](int64_t, int64_t, const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& rows,
                 const float* x, float* y) { float_tiles(w, m0, m1, x, rows, y, w.rows); });
}

}  // namespace argon::ops
