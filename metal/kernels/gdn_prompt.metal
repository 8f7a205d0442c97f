// A GDN layer over the T tokens of a pass, in three stages; contract and shapes in ops/gdn/gdn.h.
//   gdn_pre      one threadgroup per token
//   gdn_scan_r   4 threadgroups per value head, each 32 value columns; entry gdn_scanr_4 (4 simdgroups)
//   gdn_post     one threadgroup per token
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/gdn_scan.h"
#include "metal/kernels/sums.h"

using namespace metal;

constant bool grouped [[function_constant(0)]];      // the head schedule of the scan
constant bool write_half [[function_constant(1)]];   // gdn_post: y as half
constant bool write_float [[function_constant(2)]];  // gdn_post: y as float

// silu of the causal convolution of one channel at token t. Columns before the pass come from the history.
inline float conv_silu(device const float* qkv, device const float* history, device const float4* conv_w, uint t,
                       uint channels, uint c) {
  float x[4];
#pragma clang loop unroll(full)
  for (uint tap = 0; tap < 4; ++tap) {
    x[tap] = t + tap >= 3 ? qkv[(t + tap - 3) * channels + c] : history[(t + tap) * channels + c];
  }
  const float4 w = conv_w[c];
  float conv = w.x * x[0];
  conv = fma(w.y, x[1], conv);
  conv = fma(w.z, x[2], conv);
  conv = fma(w.w, x[3], conv);
  return argon::silu32(conv);
}

// history and history_out are two buffers: the threadgroups of the first tokens read the old window while others
// already write the new one.
kernel void gdn_pre(device const float* qkv [[buffer(0)]],
                    device const float* alpha [[buffer(1)]],
                    device const float* beta [[buffer(2)]],
                    device const float4* conv_w [[buffer(3)]],
                    device const float* a [[buffer(4)]],
                    device const float* dt [[buffer(5)]],
                    device const float* history [[buffer(6)]],
                    device float* qn [[buffer(7)]],
                    device float* kn [[buffer(8)]],
                    device float* vc [[buffer(9)]],
                    device float2* gb [[buffer(10)]],
                    device float* kq [[buffer(11)]],
                    device float* history_out [[buffer(12)]],
                    constant GdnMetalArgs& s [[buffer(13)]],
                    uint t [[threadgroup_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]],
                    uint sg [[simdgroup_index_in_threadgroup]],
                    uint simdgroups [[simdgroups_per_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]]) {
  const uint hk = s.hk, hv = s.hv;
  const uint channels = (2 * hk + hv) * kGdnD;
  const float scale = 1.0f / precise::sqrt(float(kGdnD));

  // A simdgroup takes a key head: its q and k, 4 values of each per lane.
  for (uint h = sg; h < hk; h += simdgroups) {
    float q[4], k[4];
    float qq = 0.0f, kk = 0.0f, kq_sum = 0.0f;
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
      const uint c = h * kGdnD + lane + 32 * i;
      q[i] = conv_silu(qkv, history, conv_w, t, channels, c);
      k[i] = conv_silu(qkv, history, conv_w, t, channels, hk * kGdnD + c);
      qq = fma(q[i], q[i], qq);
      kk = fma(k[i], k[i], kk);
    }
    const float rq = 1.0f / precise::sqrt(fold32(qq) + s.eps);
    const float rk = 1.0f / precise::sqrt(fold32(kk) + s.eps);
    const uint row = (t * hk + h) * kGdnD + lane;
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
      const float qv = (q[i] * rq) * scale;
      const float kv = k[i] * rk;
      qn[row + 32 * i] = qv;
      kn[row + 32 * i] = kv;
      kq_sum = fma(kv, qv, kq_sum);
    }
    kq_sum = fold32(kq_sum);
    if (lane == 0) kq[t * hk + h] = kq_sum;
  }

  for (uint c = tid; c < hv * kGdnD; c += threads) {
    vc[t * hv * kGdnD + c] = conv_silu(qkv, history, conv_w, t, channels, 2 * hk * kGdnD + c);
  }
  for (uint h = tid; h < hv; h += threads) {
    const float decay = argon::exp32(a[h] * argon::softplus32(alpha[t * hv + h] + dt[h]));
    gb[t * hv + h] = float2(decay, argon::sigmoid32(beta[t * hv + h]));
  }

  // The window that the next pass needs: the last 3 columns of (history, qkv).
  if (t + 3 >= s.T) {
    const uint to = (t + 3 - s.T) * channels;
    for (uint c = tid; c < channels; c += threads) history_out[to + c] = qkv[t * channels + c];
  }
  if (t == 0 && s.T < 3) {
    for (uint c = tid; c < (3 - s.T) * channels; c += threads) history_out[c] = history[s.T * channels + c];
  }
}

// Lane = value column, simdgroup = a quarter of the key dimension; 32 state values per thread stay in registers. Per token
// each simdgroup puts its partial (k.S, q.S) into red and, after the one barrier, adds all of them itself. red has two
// slots in turn: a thread writes slot s again only after the next token's barrier, when all have read it.
// TB: tokens between barriers beyond one; 0 is the only form that the recurrence allows.
template <uint NSG, uint TB>
kernel void gdn_scan_r(device const float* qn [[buffer(0)]],
                       device const float* kn [[buffer(1)]],
                       device const float* vc [[buffer(2)]],
                       device const float2* gb [[buffer(3)]],
                       device const float* kq [[buffer(4)]],
                       device float* state [[buffer(5)]],
                       device float* o [[buffer(6)]],
                       constant GdnMetalArgs& s [[buffer(7)]],
                       uint tg [[threadgroup_position_in_grid]],
                       uint sg [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  static_assert(TB == 0, "one token per barrier");
  constexpr uint rows = kGdnD / NSG;
  threadgroup float2 red[2][NSG][32];

  const uint hk = s.hk, hv = s.hv;
  const uint head = gdn_head(tg / kGdnTiles, hk, hv, grouped);
  const uint key_head = head % hk;
  const uint column = (tg % kGdnTiles) * kGdnColumns + lane;
  device float* mine = state + (head * kGdnD + sg * rows) * kGdnD + column;

  float S[rows];
#pragma clang loop unroll(full)
  for (uint i = 0; i < rows; ++i) S[i] = mine[i * kGdnD];

  for (uint t = 0; t < s.T; ++t) {
    const uint row = (t * hk + key_head) * kGdnD + sg * rows;
    device const float4* k = (device const float4*)(kn + row);
    device const float4* q = (device const float4*)(qn + row);
    const float2 g = gb[t * hv + head];  // decay, beta
    const float v = vc[(t * hv + head) * kGdnD + column];

    const uint slot = t & 1;
    red[slot][sg][lane] = gdn_partial<NSG>(S, k, q);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float2 total = (red[slot][0][lane] + red[slot][1][lane]) + (red[slot][2][lane] + red[slot][3][lane]);

    const float m = g.x * total.x;
    const float d = g.y * (v - m);
    gdn_update<rows>(S, k, d, g.x);
    if (sg == 0) o[(t * hv + head) * kGdnD + column] = fma(kq[t * hk + key_head], d, g.x * total.y);
  }

#pragma clang loop unroll(full)
  for (uint i = 0; i < rows; ++i) mine[i * kGdnD] = S[i];
}
template [[host_name("gdn_scanr_4")]] [[kernel]] decltype(gdn_scan_r<4, 0>) gdn_scan_r<4, 0>;

// A simdgroup takes a value head, 4 values per lane.
kernel void gdn_post(device const float* o [[buffer(0)]],
                     device const float* z [[buffer(1)]],
                     device const float* norm_w [[buffer(2)]],
                     device half* yh [[buffer(3), function_constant(write_half)]],
                     device float* y [[buffer(4), function_constant(write_float)]],
                     constant GdnMetalArgs& s [[buffer(5)]],
                     uint t [[threadgroup_position_in_grid]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
  for (uint h = sg; h < s.hv; h += simdgroups) {
    const uint row = (t * s.hv + h) * kGdnD + lane;
    float v[4];
    float ss = 0.0f;
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
      v[i] = o[row + 32 * i];
      ss = fma(v[i], v[i], ss);
    }
    const float r = 1.0f / precise::sqrt(fold32(ss) / float(kGdnD) + s.eps);
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
      const float out = ((v[i] * r) * norm_w[lane + 32 * i]) * argon::sigmoid32(z[row + 32 * i]);
      if (write_half) yh[row + 32 * i] = half(out);
      if (write_float) y[row + 32 * i] = out;
    }
  }
}
