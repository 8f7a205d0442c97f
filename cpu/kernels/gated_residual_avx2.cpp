// The gated residual in AVX2: a stream is read once for the norm's sum and once for its product.
#include "cpu/kernels/quantize_avx2.h"
#include "cpu/kernels/simd_avx2.h"
#include "ops/gated_residual/gated_residual.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

inline void apply_stream(float* x, const float* b, float inj, int64_t H) {
  const float g = 2.0f / (1.0f + exp32(-inj));
  for (int64_t k = 0; k < H; ++k) x[k] = fma32(g, b[k], x[k]);
}

// Values of h computed together, so that the loop over streams stays outside the vector loop.
constexpr int64_t kChunk = 64;

inline void mix_chunk(const GrMixArgs& a, const float* up, const float* n, float* h, int64_t count,
                      float inv_c) {
  float acc[kChunk];
  for (int64_t k = 0; k < count; ++k) acc[k] = 0.0f;
  for (int64_t c = 0; c < a.C; ++c) {
    const float *u = up + c * a.H, *v = n + c * a.H;
    for (int64_t k = 0; k < count; ++k) acc[k] = fma32(sigmoid32(u[k]), v[k], acc[k]);
  }
  for (int64_t k = 0; k < count; ++k) h[k] = acc[k] * inv_c;
}

}  // namespace ARGON_ISA_NS

void gr_norm_avx2(const GrNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) {
    float* x = a.x + u * a.H;
    if (a.b != nullptr) apply_stream(x, a.b + (u / a.C) * a.H, a.inj[u], a.H);
    rms_norm_row(x, a.w + (u % a.C) * a.H, a.n + u * a.H, a.H, a.eps);
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

void gr_apply_avx2(const GrApplyArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) apply_stream(a.x + u * a.H, a.b + (u / a.C) * a.H, a.inj[u], a.H);
}

void gr_gate_avx2(const GrGateArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  float* lo = a.lo;
  for (int64_t i = begin * a.R; i < end * a.R; ++i) lo[i] = silu32(lo[i] * inv_c);
  if (a.inj != nullptr) {
    for (int64_t i = begin * a.C; i < end * a.C; ++i) a.inj[i] = a.inj[i] * inv_c;
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

void gr_mix_avx2(const GrMixArgs& a, int64_t begin, int64_t end) {
  const float inv_c = 1.0f / static_cast<float>(a.C);
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t k = 0; k < a.H; k += kChunk) {
      const int64_t count = a.H - k < kChunk ? a.H - k : kChunk;
      mix_chunk(a, a.up + t * a.C * a.H + k, a.n + t * a.C * a.H + k, a.h + t * a.H + k, count, inv_c);
    }
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

}  // namespace argon::ops
