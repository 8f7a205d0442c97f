// Matrix products with float weights on wide.h: sum32 over k, some rows of W times some of x at a time.
#pragma once

#include "cpu/kernels/wide.h"
#include "cpu/kernels/x_rows.h"
#include "formats/floats.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// 16 weights as float32.
template <WeightType type>
inline Floats16 load_weights(const uint8_t* row, int64_t k) {
  if constexpr (type == WeightType::kF32) return load16(reinterpret_cast<const float*>(row) + k);
  if constexpr (type == WeightType::kF16) return load16_f16(row + 2 * k);
  if constexpr (type == WeightType::kBF16) return load16_bf16(row + 2 * k);
}

template <WeightType type>
inline float load_weight(const uint8_t* row, int64_t k) {
  if constexpr (type == WeightType::kF32) return F32::load(row + 4 * k);
  if constexpr (type == WeightType::kF16) return F16::load(row + 2 * k);
  if constexpr (type == WeightType::kBF16) return BF16::load(row + 2 * k);
}

// NM rows of W, row_bytes apart, times NT rows of x; y[t*stride + m].
template <WeightType type, int NM, int NT>
inline void float_block(const uint8_t* w, size_t row_bytes, const float* const* x, int64_t K, float* y,
                        int64_t stride) {
  Lanes32 l[NM][NT];
  for (int m = 0; m < NM; ++m) {
    for (int t = 0; t < NT; ++t) l[m][t] = zero_lanes();
  }
  int64_t k = 0;
  for (; k + 32 <= K; k += 32) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      Floats16 xv[NT];
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t) xv[t] = load16(x[t] + k + 16 * v);
#pragma GCC unroll 4
      for (int m = 0; m < NM; ++m) {
        const Floats16 wv = load_weights<type>(w + static_cast<size_t>(m) * row_bytes, k + 16 * v);
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) l[m][t].v[v] = fma16(wv, xv[t], l[m][t].v[v]);
      }
    }
  }
  for (int m = 0; m < NM; ++m) {
    const uint8_t* row = w + static_cast<size_t>(m) * row_bytes;
    for (int t = 0; t < NT; ++t) {
      if (k < K) {
        add_tail(
            l[m][t], [&](int64_t i) { return load_weight<type>(row, k + i); },
            [&](int64_t i) { return x[t][k + i]; }, K - k);
      }
      y[t * stride + m] = fold(l[m][t]);
    }
  }
}

// Rows m0 .. m1-1 times NT rows of x from i on, as often as they go.
template <WeightType type, int NT>
inline int64_t float_columns(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const float* x,
                             const XRows& rows, int64_t i, float* y, int64_t stride) {
  for (; i + NT <= rows.count; i += NT) {
    const float* xr[NT];
    for (int t = 0; t < NT; ++t) xr[t] = x + rows.row(i + t) * rows.K;
    int64_t m = m0;
    const auto take = [&]<int NM>() {
      for (; m + NM <= m1; m += NM) {
        float_block<type, NM, NT>(w + static_cast<size_t>(m) * row_bytes, row_bytes, xr, rows.K,
                                  y + i * stride + m, stride);
      }
    };
    if constexpr (kFloatRows > 1) take.template operator()<kFloatRows>();
    take.template operator()<1>();
  }
  return i;
}

template <WeightType type>
inline void float_rows(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1, const float* x,
                       const XRows& rows, float* y, int64_t stride) {
  const int64_t i = float_columns<type, kFloatColumns>(w, row_bytes, m0, m1, x, rows, 0, y, stride);
  float_columns<type, 1>(w, row_bytes, m0, m1, x, rows, i, y, stride);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
