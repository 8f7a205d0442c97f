#include <algorithm>
#include <cmath>

#include "base/exact_math.h"
#include "base/half.h"
#include "formats/format.h"
#include "ops/matmul/matmul.h"
#include "ops/sums.h"

namespace argon::ops {
namespace {

float load_float(const uint8_t* row, WeightType type, int64_t k) {
  switch (type) {
    case WeightType::kF16:
      return f16_to_f32(reinterpret_cast<const uint16_t*>(row)[k]);
    case WeightType::kBF16:
      return bf16_to_f32(reinterpret_cast<const uint16_t*>(row)[k]);
    default:
      return reinterpret_cast<const float*>(row)[k];
  }
}

float dot_float(const uint8_t* row, WeightType type, const float* x, int64_t K) {
  float lane[32] = {};
  for (int64_t k = 0; k < K; ++k) lane[k % 32] = fma32(load_float(row, type, k), x[k], lane[k % 32]);
  return fold32(lane);
}

// Adds block `b` (32 values) of a row to acc.
float add_block(const FormatTraits& f, const uint8_t* row, const QuantizedRows& q, int64_t t, int64_t K,
                int64_t b, float acc) {
  const int per_block = f.block_values / 32;
  int8_t w[32];
  Steps s;
  f.unpack32(row + (b / per_block) * f.block_bytes, static_cast<int>(b % per_block), w, &s);
  const int8_t* x = q.codes + t * K + b * 32;
  const int16_t* sums = q.sums + t * (K / 16) + b * 2;
  const float d = q.d[t * (K / 32) + b];
  const int width = 32 / s.n;
  for (int step = 0; step < s.n; ++step) {
    int32_t dot = 0;
    for (int i = step * width; i < (step + 1) * width; ++i) dot += int32_t{w[i]} * int32_t{x[i]};
    acc = fma32(s.sw[step] * d, static_cast<float>(dot), acc);
    if (!s.has_min) continue;
    const int32_t sum = s.n == 1 ? sums[0] + sums[1] : sums[step];
    acc = fma32(-(s.mw[step] * d), static_cast<float>(sum), acc);
  }
  return acc;
}

float dot_quantized(const FormatTraits& f, const uint8_t* row, const QuantizedRows& q, int64_t t, int64_t K) {
  const int64_t n = K / 32;
  float y = 0.0f;
  for (int i = 0; i < 8; ++i) {
    float acc = 0.0f;
    for (int64_t b = segment_begin(n, i); b < segment_begin(n, i + 1); ++b)
      acc = add_block(f, row, q, t, K, b, acc);
    y = i == 0 ? acc : y + acc;
  }
  return y;
}

float dot_row(const WeightMatrix& w, const float* x, const QuantizedRows& q, int64_t m, int64_t t) {
  const uint8_t* row = static_cast<const uint8_t*>(w.data) + static_cast<size_t>(m) * w.row_bytes;
  if (is_plain_float(w.type)) return dot_float(row, w.type, x + t * w.cols, w.cols);
  return dot_quantized(*find_format(w.type), row, q, t, w.cols);
}

}  // namespace

void quantize_ref(const QuantizeArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t b = 0; b < a.K / 32; ++b) {
      const float* x = a.x + t * a.K + b * 32;
      int8_t* code = a.q.codes + t * a.K + b * 32;
      uint32_t bits = 0;  // of max|x|: as integers, so that a NaN is the largest
      for (int i = 0; i < 32; ++i) bits = std::max(bits, f32_bits(x[i]) & 0x7fffffffu);
      const float max = f32_from_bits(bits);
      const bool zero = max < 0x1p-100f, finite = bits < 0x7f800000u;
      const float up = zero ? 0.0f : 127.0f / max;
      a.q.d[t * (a.K / 32) + b] = zero ? 0.0f : max / 127.0f;
      int sum[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        code[i] = finite ? static_cast<int8_t>(std::nearbyint(x[i] * up)) : int8_t{0};
        sum[i / 16] += code[i];
      }
      for (int h = 0; h < 2; ++h) a.q.sums[t * (a.K / 16) + b * 2 + h] = static_cast<int16_t>(sum[h]);
    }
  }
}

void matmul_ref(const MatmulArgs& a, int64_t begin, int64_t end) {
  for (int64_t m = begin * kMatmulTile; m < end * kMatmulTile && m < a.w.rows; ++m) {
    for (int64_t t = 0; t < a.T; ++t) a.y[t * a.ldy + m] = dot_row(a.w, a.x, a.q, m, t);
  }
}

void matmul_grouped_ref(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  const int64_t tiles = matmul_tiles(a.w.first.rows);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t e = u / tiles, tile = u % tiles;
    WeightMatrix w = a.w.first;
    w.data = static_cast<const uint8_t*>(w.data) + static_cast<size_t>(e) * a.w.expert_bytes;
    for (int64_t s = a.expert_begin[e]; s < a.expert_begin[e + 1]; ++s) {
      const int64_t row = a.slot_row != nullptr ? a.slot_row[s] : s;
      for (int64_t m = tile * kMatmulTile; m < (tile + 1) * kMatmulTile && m < w.rows; ++m) {
        a.y[s * w.rows + m] = dot_row(w, a.x, a.q, m, row);
      }
    }
  }
}

}  // namespace argon::ops
