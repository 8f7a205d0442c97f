// The gated delta rule's scan and what follows it in NEON: 8 value columns are two vectors.
#include "cpu/kernels/quantize_neon.h"
#include "cpu/kernels/wide.h"
#include "ops/gdn/gdn.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxD = 1024;  // ModelConfig's bound on D

struct Columns {
  float32x4_t v[2];
};

inline Columns load_columns(const float* p) { return {{vld1q_f32(p), vld1q_f32(p + 4)}}; }
inline void store_columns(float* p, const Columns& c) {
  vst1q_f32(p, c.v[0]);
  vst1q_f32(p + 4, c.v[1]);
}
inline Columns add(const Columns& a, const Columns& b) {
  return {{vaddq_f32(a.v[0], b.v[0]), vaddq_f32(a.v[1], b.v[1])}};
}
inline Columns times(float f, const Columns& c) { return {{vmulq_n_f32(c.v[0], f), vmulq_n_f32(c.v[1], f)}}; }
inline Columns fma_n(float f, const Columns& c, const Columns& acc) {
  return {{vfmaq_n_f32(acc.v[0], c.v[0], f), vfmaq_n_f32(acc.v[1], c.v[1], f)}};
}
inline Columns sum_parts(const Columns* p) {
  return add(add(add(p[0], p[1]), add(p[2], p[3])), add(add(p[4], p[5]), add(p[6], p[7])));
}

}  // namespace ARGON_ISA_NS

void gdn_scan_neon(const GdnScanArgs& a, int64_t begin, int64_t end) {
  const GdnShape& s = a.s;
  const int64_t groups = s.D / kGdnColumns, part = s.D / 8;
  alignas(16) float S[kMaxD * 8];
  for (int64_t u = begin; u < end; ++u) {
    const int64_t j = u / groups, key = j % s.hk, column = (u % groups) * kGdnColumns;
    float* state = a.state + j * s.D * s.D + column;
    for (int64_t i = 0; i < s.D; ++i) store_columns(S + 8 * i, load_columns(state + i * s.D));
    for (int64_t t = 0; t < s.T; ++t) {
      const float* k = a.kn + (t * s.hk + key) * s.D;
      const float* q = a.qn + (t * s.hk + key) * s.D;
      const int64_t at = t * s.hv + j;
      const float decay = a.gb[2 * at], beta = a.gb[2 * at + 1];
      Columns pk[8], pq[8];
      for (int p = 0; p < 8; ++p) {
        Columns sk{{vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}}, sq = sk;
        for (int64_t i = p * part; i < (p + 1) * part; ++i) {
          const Columns row = load_columns(S + 8 * i);
          sk = fma_n(k[i], row, sk);
          sq = fma_n(q[i], row, sq);
        }
        pk[p] = sk, pq[p] = sq;
      }
      const Columns m = times(decay, sum_parts(pk)), v = load_columns(a.vc + at * s.D + column);
      const Columns d = times(beta, {{vsubq_f32(v.v[0], m.v[0]), vsubq_f32(v.v[1], m.v[1])}});
      for (int64_t i = 0; i < s.D; ++i) {
        store_columns(S + 8 * i, fma_n(k[i], d, times(decay, load_columns(S + 8 * i))));
      }
      store_columns(a.o + at * s.D + column, fma_n(a.kq[t * s.hk + key], d, times(decay, sum_parts(pq))));
    }
    for (int64_t i = 0; i < s.D; ++i) store_columns(state + i * s.D, load_columns(S + 8 * i));
  }
}

void gdn_post_neon(const GdnPostArgs& a, int64_t begin, int64_t end) {
  const GdnShape& s = a.s;
  for (int64_t i = begin * s.hv; i < end * s.hv; ++i) {
    const float *o = a.o + i * s.D, *z = a.z + i * s.D;
    float* y = a.y + i * s.D;
    const float r = reciprocal_root(vector_dot(o, o, s.D) / static_cast<float>(s.D) + a.eps);
    for (int64_t k = 0; k < s.D; ++k) y[k] = ((o[k] * r) * a.norm_w[k]) * sigmoid32(z[k]);
  }
  if (a.out_q.codes != nullptr) quantize_neon(quantized(a), begin, end);
}

}  // namespace argon::ops
