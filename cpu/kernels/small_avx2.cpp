// The operations that are one loop over vectors: norm of rows, gated activation, routing, combine, n-gram
// gate and convolution.
#include <cmath>
#include <cstring>

#include "cpu/kernels/quantize_avx2.h"
#include "cpu/kernels/simd_avx2.h"
#include "ops/moe_combine/moe_combine.h"
#include "ops/moe_route/route_token.h"
#include "ops/ngram_embed/ngram_embed.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"

namespace argon::ops {

void rms_norm_avx2(const RmsNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t x = (i / a.group) * a.x_stride + (i % a.group) * a.x_inner;
    const int64_t y = (i / a.group) * a.y_stride + (i % a.group) * a.y_inner;
    rms_norm_row(a.x + x, a.w, a.y + y, a.n, a.eps);
  }
}

void swiglu_avx2(const SwigluArgs& a, int64_t begin, int64_t end) {
  const float *g = a.g, *u = a.u;
  float* h = a.h;
  for (int64_t i = begin * a.F; i < end * a.F; ++i) h[i] = silu32(g[i]) * u[i];
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

// Once the list of the K largest is full, only logits above its last one are looked at.
void moe_route_avx2(const MoeRouteArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const float* l = a.logits + t * a.E;
    RankedExperts ranked{l, a.ids + t * a.K, a.K};
    int64_t e = 0;
    for (; e < a.K; ++e) ranked.insert(e);
    for (; e + 8 <= a.E; e += 8) {
      const __m256 last = _mm256_set1_ps(l[ranked.ids[a.K - 1]]);
      int above = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(l + e), last, _CMP_GT_OQ));
      for (; above != 0; above &= above - 1) ranked.insert(e + __builtin_ctz(static_cast<unsigned>(above)));
    }
    for (; e < a.E; ++e) ranked.insert(e);
    weigh_experts(a, t);
  }
}

void moe_combine_avx2(const MoeCombineArgs& a, int64_t begin, int64_t end) {
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

void ngram_gate_avx2(const NgramGateArgs& a, int64_t begin, int64_t end) {
  const float scale = reciprocal_root(static_cast<float>(a.H));
  for (int64_t u = begin; u < end; ++u) {
    const int64_t t = u / a.C, c = u % a.C;
    float *key = a.key + u * a.H, *v = a.v + u * a.H;
    float* query = a.nv + u * a.H;  // holds the normed query until nv itself is written
    rms_norm_row(key, a.w_key + c * a.H, key, a.H, a.eps);
    rms_norm_row(a.x + u * a.H, a.w_query + c * a.H, query, a.H, a.eps);
    const float s = vector_dot(key, query, a.H) * scale;
    const float most = std::fabs(s) > 1e-6f ? std::fabs(s) : 1e-6f;
    const float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(most)));
    const float gate = s == 0.0f ? 0.5f : sigmoid32(std::copysign(root, s));
    const float* value = a.value + t * a.H;
    for (int64_t i = 0; i < a.H; ++i) v[i] = gate * value[i];
    rms_norm_row(v, a.w_conv + c * a.H, a.nv + u * a.H, a.H, a.eps);
  }
}

void ngram_conv_avx2(const NgramConvArgs& a, int64_t begin, int64_t end) {
  const int64_t columns = (a.taps - 1) * a.n, first = begin * kNgramChannels;
  const int64_t stop = end * kNgramChannels < a.channels ? end * kNgramChannels : a.channels;
  for (int64_t i0 = first; i0 < stop; i0 += kNgramChannels) {
    const int64_t count = stop - i0 < kNgramChannels ? stop - i0 : kNgramChannels;
    const auto column = [&](int64_t at) {
      return (at >= 0 ? a.nv + at * a.channels : a.window + (at + columns) * a.channels) + i0;
    };
    for (int64_t t = 0; t < a.T; ++t) {
      float conv[kNgramChannels];
      for (int64_t tap = 0; tap < a.taps; ++tap) {
        const float* x = column(t - (a.taps - 1 - tap) * a.n);
        for (int64_t i = 0; i < count; ++i) {
          const float w = a.conv_w[(i0 + i) * a.taps + tap];
          conv[i] = tap == 0 ? w * x[i] : fma32(w, x[i], conv[i]);
        }
      }
      float* x = a.x + t * a.channels + i0;
      const float* v = a.v + t * a.channels + i0;
      for (int64_t i = 0; i < count; ++i) x[i] = x[i] + (v[i] + silu32(conv[i]));
    }
    for (int64_t j = 0; j < columns; ++j) {
      std::memmove(a.window + j * a.channels + i0, column(a.T - columns + j),
                   static_cast<size_t>(count) * sizeof(float));
    }
  }
}

}  // namespace argon::ops
