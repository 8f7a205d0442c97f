// The operations that are one loop over vectors, which the compiler makes vectors of, with norms on wide.h:
// norm of rows, gated activation, combine, and the gated residual.
#include "cpu/kernels/quantize_neon.h"
#include "cpu/kernels/wide.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/moe_combine/moe_combine.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

inline void apply_stream(float* x, const float* b, float inj, int64_t H) {
  const float g = 2.0f / (1.0f + exp32(-inj));
  for (int64_t k = 0; k < H; ++k) x[k] = fma32(g, b[k], x[k]);
}

}  // namespace ARGON_ISA_NS

void rms_norm_neon(const RmsNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t x = (i / a.group) * a.x_stride + (i % a.group) * a.x_inner;
    const int64_t y = (i / a.group) * a.y_stride + (i % a.group) * a.y_inner;
    rms_norm_row(a.x + x, a.w, a.y + y, a.n, a.eps);
  }
}

void swiglu_neon(const SwigluArgs& a, int64_t begin, int64_t end) {
  const float *g = a.g, *u = a.u;
  float* h = a.h;
  for (int64_t i = begin * a.F; i < end * a.F; ++i) h[i] = silu32(g[i]) * u[i];
  if (a.out_q.codes != nullptr) quantize_neon(quantized(a), begin, end);
}

void moe_combine_neon(const MoeCombineArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    float* out = a.out + t * a.H;
    const float* shared = a.shared + t * a.H;
    const float sg = a.sg[t];
    for (int64_t d = 0; d < a.H; ++d) out[d] = sg * shared[d];
    for (int64_t k = 0; k < a.K; ++k) {
      const int64_t slot = a.slot[t * a.K + k];
      if (slot < 0) continue;
      const float* y = a.y + slot * a.H;
      const float w = a.w[t * a.K + k];
      for (int64_t d = 0; d < a.H; ++d) out[d] = fma32(w, y[d], out[d]);
    }
  }
}

void gr_norm_neon(const GrNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) {
    float* x = a.x + u * a.H;
    if (a.b != nullptr) apply_stream(x, a.b + (u / a.C) * a.H, a.inj[u], a.H);
    rms_norm_row(x, a.w + (u % a.C) * a.H, a.n + u * a.H, a.H, a.eps);
  }
  if (a.out_q.codes != nullptr) quantize_neon(quantized(a), begin, end);
}

void gr_apply_neon(const GrApplyArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) apply_stream(a.x + u * a.H, a.b + (u / a.C) * a.H, a.inj[u], a.H);
}

void gr_gate_neon(const GrGateArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  float* lo = a.lo;
  for (int64_t i = begin * a.R; i < end * a.R; ++i) lo[i] = silu32(lo[i] * inv_c);
  if (a.inj != nullptr) {
    for (int64_t i = begin * a.C; i < end * a.C; ++i) a.inj[i] = a.inj[i] * inv_c;
  }
  if (a.out_q.codes != nullptr) quantize_neon(quantized(a), begin, end);
}

void gr_mix_neon(const GrMixArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  for (int64_t t = begin; t < end; ++t) {
    float* h = a.h + t * a.H;
    for (int64_t k = 0; k < a.H; ++k) h[k] = 0.0f;
    for (int64_t c = 0; c < a.C; ++c) {
      const float *u = a.up + (t * a.C + c) * a.H, *n = a.n + (t * a.C + c) * a.H;
      for (int64_t k = 0; k < a.H; ++k) h[k] = fma32(sigmoid32(u[k]), n[k], h[k]);
    }
    for (int64_t k = 0; k < a.H; ++k) h[k] = h[k] * inv_c;
  }
  if (a.out_q.codes != nullptr) quantize_neon(quantized(a), begin, end);
}

}  // namespace argon::ops
