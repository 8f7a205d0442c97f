// The gated delta rule in AVX2. The scan keeps 8 value columns in a vector, so a unit's state (D vectors)
// stays in the first-level cache from token to token.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/quantize_avx2.h"
#include "cpu/kernels/simd_avx2.h"
#include "ops/gdn/gdn.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxD = 1024;     // ModelConfig's bound on D
constexpr int64_t kFetchAhead = 4;  // tokens of the scan

// Convolution and silu of the D channels of one head for all tokens; row(t) says where token t's values go.
template <class Row>
inline void conv_head(const GdnPreArgs& a, int64_t channel, Row row) {
  const int64_t ch = channels(a.s), D = a.s.D, keep = kGdnConvTaps - 1;
  float w[kGdnConvTaps][kMaxD];
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t tap = 0; tap < kGdnConvTaps; ++tap) w[tap][i] = a.conv_w[(channel + i) * kGdnConvTaps + tap];
  }
  const auto column = [&](int64_t at) {
    return (at >= 0 ? a.qkv + at * ch : a.history + (at + keep) * ch) + channel;
  };
  for (int64_t t = 0; t < a.s.T; ++t) {
    const float *x0 = column(t - 3), *x1 = column(t - 2), *x2 = column(t - 1), *x3 = column(t);
    float* u = row(t);
    for (int64_t i = 0; i < D; ++i) {
      float conv = w[0][i] * x0[i];
      conv = fma32(w[1][i], x1[i], conv);
      conv = fma32(w[2][i], x2[i], conv);
      u[i] = silu32(fma32(w[3][i], x3[i], conv));
    }
  }
  for (int64_t j = 0; j < keep; ++j) {
    const float* from = column(a.s.T - keep + j);
    std::memmove(a.history + j * ch + channel, from, static_cast<size_t>(D) * sizeof(float));
  }
}

inline void key_head(const GdnPreArgs& a, int64_t head) {
  const GdnShape& s = a.s;
  const float scale = reciprocal_root(static_cast<float>(s.D));
  const auto q_row = [&](int64_t t) { return a.qn + (t * s.hk + head) * s.D; };
  const auto k_row = [&](int64_t t) { return a.kn + (t * s.hk + head) * s.D; };
  conv_head(a, head * s.D, q_row);
  conv_head(a, (s.hk + head) * s.D, k_row);
  for (int64_t t = 0; t < s.T; ++t) {
    float *q = q_row(t), *k = k_row(t);
    const float rq = reciprocal_root(vector_dot(q, q, s.D) + a.eps),
                rk = reciprocal_root(vector_dot(k, k, s.D) + a.eps);
    for (int64_t i = 0; i < s.D; ++i) {
      q[i] = (q[i] * rq) * scale;
      k[i] = k[i] * rk;
    }
    a.kq[t * s.hk + head] = dot32(k, q, s.D);
  }
}

inline void value_head(const GdnPreArgs& a, int64_t head) {
  const GdnShape& s = a.s;
  conv_head(a, (2 * s.hk + head) * s.D, [&](int64_t t) { return a.vc + (t * s.hv + head) * s.D; });
  for (int64_t t = 0; t < s.T; ++t) {
    const int64_t at = t * s.hv + head;
    a.gb[2 * at] = exp32(a.a[head] * softplus32(a.alpha[at] + a.dt[head]));
    a.gb[2 * at + 1] = sigmoid32(a.beta[at]);
  }
}

inline __m256 sum_parts(const __m256* p) {
  return _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(p[0], p[1]), _mm256_add_ps(p[2], p[3])),
                       _mm256_add_ps(_mm256_add_ps(p[4], p[5]), _mm256_add_ps(p[6], p[7])));
}

}  // namespace ARGON_ISA_NS

void gdn_pre_avx2(const GdnPreArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) u < a.s.hk ? key_head(a, u) : value_head(a, u - a.s.hk);
}

inline namespace ARGON_ISA_NS {

// NV vectors of 8 value columns of one head, all tokens. Token t's change of the state is made when token t +
// 1 reads it, so that each element is loaded and stored once per token.
template <int NV>
inline void scan_columns(const GdnScanArgs& a, int64_t head, int64_t column, float* S) {
  const GdnShape& s = a.s;
  const int64_t part = s.D / 8, key = head % s.hk, width = 8 * NV;
  float* state = a.state + head * s.D * s.D + column;
  for (int64_t i = 0; i < s.D; ++i) {
    for (int v = 0; v < NV; ++v)
      _mm256_store_ps(S + width * i + 8 * v, _mm256_loadu_ps(state + i * s.D + 8 * v));
  }
  __m256 d[NV];
  for (int v = 0; v < NV; ++v) d[v] = _mm256_setzero_ps();
  __m256 decay = _mm256_set1_ps(1.0f);
  const float* before = nullptr;  // the last token's key
  for (int64_t t = 0; t < s.T; ++t) {
    const float *k = a.kn + (t * s.hk + key) * s.D, *q = a.qn + (t * s.hk + key) * s.D;
    const int64_t at = t * s.hv + head;
    // Rows of values and results are pages apart, so the processor does not fetch them by itself.
    const int64_t soon = std::min(t + kFetchAhead, s.T - 1) * s.hv + head;
    _mm_prefetch(reinterpret_cast<const char*>(a.vc + soon * s.D + column), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(a.o + soon * s.D + column), _MM_HINT_T0);
    __m256 pk[NV][8], pq[NV][8];
    // Two parts at a time: independent chains.
    for (int p = 0; p < 8; p += 2) {
      __m256 ak[2][NV], aq[2][NV];
#pragma GCC unroll 4
      for (int i = 0; i < 2 * NV; ++i) ak[i / NV][i % NV] = aq[i / NV][i % NV] = _mm256_setzero_ps();
      const auto rows = [&](auto change) {
        for (int64_t r = 0; r < part; ++r) {
#pragma GCC unroll 2
          for (int j = 0; j < 2; ++j) {
            const int64_t i = (p + j) * part + r;
            float* element = S + width * i;
            __m256 row[NV];
#pragma GCC unroll 2
            for (int v = 0; v < NV; ++v) row[v] = _mm256_load_ps(element + 8 * v);
            if constexpr (decltype(change)::value) {
              const __m256 changed = _mm256_broadcast_ss(before + i);
#pragma GCC unroll 2
              for (int v = 0; v < NV; ++v) {
                row[v] = _mm256_fmadd_ps(changed, d[v], _mm256_mul_ps(decay, row[v]));
                _mm256_store_ps(element + 8 * v, row[v]);
              }
            }
            const __m256 ki = _mm256_broadcast_ss(k + i), qi = _mm256_broadcast_ss(q + i);
#pragma GCC unroll 2
            for (int v = 0; v < NV; ++v) {
              ak[j][v] = _mm256_fmadd_ps(ki, row[v], ak[j][v]);
              aq[j][v] = _mm256_fmadd_ps(qi, row[v], aq[j][v]);
            }
          }
        }
      };
      before != nullptr ? rows(std::true_type()) : rows(std::false_type());
      for (int j = 0; j < 2; ++j) {
        for (int v = 0; v < NV; ++v) pk[v][p + j] = ak[j][v], pq[v][p + j] = aq[j][v];
      }
    }
    decay = _mm256_set1_ps(a.gb[2 * at]);
    const __m256 beta = _mm256_set1_ps(a.gb[2 * at + 1]), kq = _mm256_set1_ps(a.kq[t * s.hk + key]);
    for (int v = 0; v < NV; ++v) {
      const __m256 m = _mm256_mul_ps(decay, sum_parts(pk[v]));
      d[v] = _mm256_mul_ps(beta, _mm256_sub_ps(_mm256_loadu_ps(a.vc + at * s.D + column + 8 * v), m));
      _mm256_storeu_ps(a.o + at * s.D + column + 8 * v,
                       _mm256_fmadd_ps(kq, d[v], _mm256_mul_ps(decay, sum_parts(pq[v]))));
    }
    before = k;
  }
  for (int64_t i = 0; i < s.D; ++i) {
    for (int v = 0; v < NV; ++v) {
      const __m256 row = _mm256_mul_ps(decay, _mm256_load_ps(S + width * i + 8 * v));
      _mm256_storeu_ps(state + i * s.D + 8 * v, _mm256_fmadd_ps(_mm256_broadcast_ss(before + i), d[v], row));
    }
  }
}

}  // namespace ARGON_ISA_NS

void gdn_scan_avx2(const GdnScanArgs& a, int64_t begin, int64_t end) {
  const int64_t groups = a.s.D / kGdnColumns;
  alignas(32) float S[kMaxD * 16];
  if (a.s.T <= 0) return;
  for (int64_t u = begin; u < end;) {
    const int64_t head = u / groups, column = u % groups * kGdnColumns;
    if (u + 2 <= end && u % groups + 2 <= groups) {
      scan_columns<2>(a, head, column, S);
      u += 2;
    } else {
      scan_columns<1>(a, head, column, S);
      u += 1;
    }
  }
}

void gdn_post_avx2(const GdnPostArgs& a, int64_t begin, int64_t end) {
  const GdnShape& s = a.s;
  for (int64_t i = begin * s.hv; i < end * s.hv; ++i) {
    const float *o = a.o + i * s.D, *z = a.z + i * s.D;
    float* y = a.y + i * s.D;
    const float r = reciprocal_root(vector_dot(o, o, s.D) / static_cast<float>(s.D) + a.eps);
    for (int64_t k = 0; k < s.D; ++k) y[k] = ((o[k] * r) * a.norm_w[k]) * sigmoid32(z[k]);
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

}  // namespace argon::ops
