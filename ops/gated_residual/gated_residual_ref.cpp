#include "ops/gated_residual/gated_residual.h"
#include "ops/sums.h"

namespace argon::ops {
namespace {

// Stream u = t*C + c: x_c += 2/(1+exp(-inj_c)) * b.
void apply(float* x, const float* b, float inj, int64_t H) {
  const float g = 2.0f / (1.0f + exp32(-inj));
  for (int64_t k = 0; k < H; ++k) x[k] = fma32(g, b[k], x[k]);
}

}  // namespace

void gr_norm_ref(const GrNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) {
    float* x = a.x + u * a.H;
    const float* w = a.w + (u % a.C) * a.H;
    float* n = a.n + u * a.H;
    if (a.b != nullptr) apply(x, a.b + (u / a.C) * a.H, a.inj[u], a.H);
    rms_norm_row(x, w, n, a.H, a.eps);
  }
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

void gr_apply_ref(const GrApplyArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) apply(a.x + u * a.H, a.b + (u / a.C) * a.H, a.inj[u], a.H);
}

void gr_gate_ref(const GrGateArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  for (int64_t t = begin; t < end; ++t) {
    float* lo = a.lo + t * a.R;
    for (int64_t k = 0; k < a.R; ++k) lo[k] = silu32(lo[k] * inv_c);
    if (a.inj == nullptr) continue;
    for (int64_t c = 0; c < a.C; ++c) a.inj[t * a.C + c] = a.inj[t * a.C + c] * inv_c;
  }
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

void gr_mix_ref(const GrMixArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  for (int64_t t = begin; t < end; ++t) {
    const float* up = a.up + t * a.C * a.H;
    const float* n = a.n + t * a.C * a.H;
    for (int64_t k = 0; k < a.H; ++k) {
      float acc = 0.0f;
      for (int64_t c = 0; c < a.C; ++c) acc = fma32(sigmoid32(up[c * a.H + k]), n[c * a.H + k], acc);
      a.h[t * a.H + k] = acc * inv_c;
    }
  }
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

}  // namespace argon::ops
