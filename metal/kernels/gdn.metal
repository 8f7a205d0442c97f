// A GDN layer with heads of any size; contract and shapes in ops/gdn/gdn.h. gdn_prompt.metal is the fast form for heads of
// 128. One simdgroup takes a head of a token in gdn_pre_any and gdn_post_any, one thread a value column in gdn_scan_any.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/gdn_args.h"
#include "metal/kernels/norms.h"

using namespace metal;

inline float conv_silu(device const float* qkv, device const float* history, device const float* conv_w, uint t,
                       uint channels, uint c) {
  float conv = 0.0f;
  for (uint tap = 0; tap < 4; ++tap) {
    const float x = t + tap >= 3 ? qkv[(t + tap - 3) * channels + c] : history[(t + tap) * channels + c];
    conv = tap == 0 ? conv_w[4 * c] * x : fma(conv_w[4 * c + tap], x, conv);
  }
  return argon::silu32(conv);
}

// Threadgroups: x = 8 heads (key heads, then value heads), y = token. A lane reads back only what it wrote itself.
kernel void gdn_pre_any(device const float* qkv [[buffer(0)]],
                        device const float* alpha [[buffer(1)]],
                        device const float* beta [[buffer(2)]],
                        device const float* conv_w [[buffer(3)]],
                        device const float* a [[buffer(4)]],
                        device const float* dt [[buffer(5)]],
                        device const float* history [[buffer(6)]],
                        device float* qn [[buffer(7)]],
                        device float* kn [[buffer(8)]],
                        device float* vc [[buffer(9)]],
                        device float* gb [[buffer(10)]],
                        device float* kq [[buffer(11)]],
                        constant GdnAnyMetalArgs& s [[buffer(12)]],
                        uint2 tg [[threadgroup_position_in_grid]],
                        uint sg [[simdgroup_index_in_threadgroup]],
                        uint simdgroups [[simdgroups_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
  const uint hk = s.hk, hv = s.hv, D = s.D, t = tg.y;
  const uint channels = (2 * hk + hv) * D;
  const uint head = tg.x * simdgroups + sg;
  if (head >= hk + hv) return;
  if (head >= hk) {
    const uint j = head - hk;
    for (uint i = lane; i < D; i += 32) {
      vc[(t * hv + j) * D + i] = conv_silu(qkv, history, conv_w, t, channels, (2 * hk + j) * D + i);
    }
    if (lane == 0) {
      gb[(t * hv + j) * 2] = argon::exp32(a[j] * argon::softplus32(alpha[t * hv + j] + dt[j]));
      gb[(t * hv + j) * 2 + 1] = argon::sigmoid32(beta[t * hv + j]);
    }
    return;
  }
  device float* q = qn + (t * hk + head) * D;
  device float* k = kn + (t * hk + head) * D;
  for (uint i = lane; i < D; i += 32) {
    q[i] = conv_silu(qkv, history, conv_w, t, channels, head * D + i);
    k[i] = conv_silu(qkv, history, conv_w, t, channels, (hk + head) * D + i);
  }
  const float scale = inverse_root(D);
  const float rq = 1.0f / precise::sqrt(simd_dot(q, q, D, lane) + s.eps);
  const float rk = 1.0f / precise::sqrt(simd_dot(k, k, D, lane) + s.eps);
  float sum = 0.0f;
  for (uint i = lane; i < D; i += 32) {
    const float qv = (q[i] * rq) * scale;
    const float kv = k[i] * rk;
    q[i] = qv;
    k[i] = kv;
    sum = fma(kv, qv, sum);
  }
  sum = fold32(sum);
  if (lane == 0) kq[t * hk + head] = sum;
}

// After gdn_pre_any: the last 3 columns become the history, oldest first, so nothing is read after it was replaced. A
// thread takes a channel.
kernel void gdn_history(device const float* qkv [[buffer(0)]],
                        device float* history [[buffer(1)]],
                        constant GdnAnyMetalArgs& s [[buffer(2)]],
                        uint c [[thread_position_in_grid]]) {
  const uint channels = (2 * s.hk + s.hv) * s.D;
  if (c >= channels) return;
  for (uint j = 0; j < 3; ++j) {
    const uint from = s.T + j;  // of (history, qkv)
    history[j * channels + c] = from >= 3 ? qkv[(from - 3) * channels + c] : history[from * channels + c];
  }
}

// The state stays in device memory: each thread reads and writes its own column only.
kernel void gdn_scan_any(device const float* qn [[buffer(0)]],
                         device const float* kn [[buffer(1)]],
                         device const float* vc [[buffer(2)]],
                         device const float* gb [[buffer(3)]],
                         device const float* kq [[buffer(4)]],
                         device float* state [[buffer(5)]],
                         device float* o [[buffer(6)]],
                         constant GdnAnyMetalArgs& s [[buffer(7)]],
                         uint at [[thread_position_in_grid]]) {
  const uint hk = s.hk, hv = s.hv, D = s.D, part = s.D / 8;
  if (at >= hv * D) return;
  const uint head = at / D, column = at % D, key_head = head % hk;
  device float* S = state + head * D * D + column;
  for (uint t = 0; t < s.T; ++t) {
    device const float* k = kn + (t * hk + key_head) * D;
    device const float* q = qn + (t * hk + key_head) * D;
    const float decay = gb[(t * hv + head) * 2], beta = gb[(t * hv + head) * 2 + 1];
    float pk[8], pq[8];
    for (uint p = 0; p < 8; ++p) {
      float sum_k = 0.0f, sum_q = 0.0f;
      for (uint i = p * part; i < (p + 1) * part; ++i) {
        const float v = S[i * D];
        sum_k = fma(k[i], v, sum_k);
        sum_q = fma(q[i], v, sum_q);
      }
      pk[p] = sum_k;
      pq[p] = sum_q;
    }
    const float total_k = ((pk[0] + pk[1]) + (pk[2] + pk[3])) + ((pk[4] + pk[5]) + (pk[6] + pk[7]));
    const float total_q = ((pq[0] + pq[1]) + (pq[2] + pq[3])) + ((pq[4] + pq[5]) + (pq[6] + pq[7]));
    const float m = decay * total_k;
    const float d = beta * (vc[(t * hv + head) * D + column] - m);
    for (uint i = 0; i < D; ++i) S[i * D] = fma(k[i], d, decay * S[i * D]);
    o[(t * hv + head) * D + column] = fma(kq[t * hk + key_head], d, decay * total_q);
  }
}

// Threadgroups: x = 8 heads, y = token.
kernel void gdn_post_any(device const float* o [[buffer(0)]],
                         device const float* z [[buffer(1)]],
                         device const float* norm_w [[buffer(2)]],
                         device float* y [[buffer(3)]],
                         constant GdnAnyMetalArgs& s [[buffer(4)]],
                         uint2 tg [[threadgroup_position_in_grid]],
                         uint sg [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  const uint head = tg.x * simdgroups + sg;
  if (head >= s.hv) return;
  const uint row = (tg.y * s.hv + head) * s.D;
  const float r = norm_factor(simd_dot(o + row, o + row, s.D, lane), s.D, s.eps);
  for (uint i = lane; i < s.D; i += 32) {
    y[row + i] = ((o[row + i] * r) * norm_w[i]) * argon::sigmoid32(z[row + i]);
  }
}
