// The hashed n-gram module; contracts in ops/ngram_embed/ngram_embed.h.
//   ngram_hash     a thread takes a row: x = head of an order, y = token
//   ngram_gate     a threadgroup takes a stream of a token: 256 threads, below 512 values 32, as the contract's sums want
//   ngram_conv     a thread takes a value: x = channel, y = token
//   ngram_window   a thread takes a channel; after ngram_conv
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/ngram_embed_args.h"
#include "metal/kernels/norms.h"

using namespace metal;

kernel void ngram_hash(device const int* tokens [[buffer(0)]],
                       device const ulong* multipliers [[buffer(1)]],
                       device const ulong* sizes [[buffer(2)]],
                       device const ulong* offsets [[buffer(3)]],
                       device int* rows [[buffer(4)]],
                       constant NgramHashMetalArgs& s [[buffer(5)]],
                       uint2 at [[thread_position_in_grid]]) {
  const uint heads = (s.n - 1) * s.G, order = at.x / s.G + 2, last = at.y + s.n - 1;
  ulong mixed = ulong(tokens[last]) * multipliers[0];
  bool cut = false;
  for (uint m = 1; m < order; ++m) {
    const int token = tokens[last - m];
    cut = cut || token == s.eos;
    mixed ^= ulong(cut ? s.eos : token) * multipliers[m];
  }
  rows[at.y * heads + at.x] = int(mixed % sizes[at.x] + offsets[at.x]);
}

// A thread reads back only what it wrote itself.
kernel void ngram_gate(device float* key [[buffer(0)]],
                       device const float* value [[buffer(1)]],
                       device const float* x [[buffer(2)]],
                       device const float* w_key [[buffer(3)]],
                       device const float* w_query [[buffer(4)]],
                       device const float* w_conv [[buffer(5)]],
                       device float* v [[buffer(6)]],
                       device float* nv [[buffer(7)]],
                       constant NgramGateMetalArgs& s [[buffer(8)]],
                       uint u [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]],
                       uint threads [[threads_per_threadgroup]],
                       uint sg [[simdgroup_index_in_threadgroup]],
                       uint simdgroups [[simdgroups_per_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[4][8];
  const uint H = s.H, row = u * H, weight = u % s.C * H, token = u / s.C * H;
  float kk = 0.0f, qq = 0.0f;
  for (uint i = tid; i < H; i += threads) {
    kk = fma(key[row + i], key[row + i], kk);
    qq = fma(x[row + i], x[row + i], qq);
  }
  const float rk = norm_factor(group_sum(kk, part[0], simdgroups, sg, lane), H, s.eps);
  const float rq = norm_factor(group_sum(qq, part[1], simdgroups, sg, lane), H, s.eps);
  float dot = 0.0f;
  for (uint i = tid; i < H; i += threads) {
    const float k = (key[row + i] * rk) * w_key[weight + i];
    const float q = (x[row + i] * rq) * w_query[weight + i];
    key[row + i] = k;
    dot = fma(k, q, dot);
  }
  const float score = group_sum(dot, part[2], simdgroups, sg, lane) * inverse_root(H);
  const float size = fabs(score) < 1e-6f ? 1e-6f : fabs(score);
  const float gate = score == 0.0f ? 0.5f : argon::sigmoid32(copysign(precise::sqrt(size), score));
  float vv = 0.0f;
  for (uint i = tid; i < H; i += threads) {
    const float g = gate * value[token + i];
    v[row + i] = g;
    vv = fma(g, g, vv);
  }
  const float rv = norm_factor(group_sum(vv, part[3], simdgroups, sg, lane), H, s.eps);
  for (uint i = tid; i < H; i += threads) nv[row + i] = (v[row + i] * rv) * w_conv[weight + i];
}

kernel void ngram_conv(device const float* v [[buffer(0)]],
                       device const float* nv [[buffer(1)]],
                       device const float* conv_w [[buffer(2)]],
                       device const float* window [[buffer(3)]],
                       device float* x [[buffer(4)]],
                       constant NgramConvMetalArgs& s [[buffer(5)]],
                       uint2 at [[thread_position_in_grid]]) {
  const uint i = at.x, t = at.y, channels = s.channels, columns = (s.taps - 1) * s.n;
  if (i >= channels) return;
  float conv = 0.0f;
  for (uint tap = 0; tap < s.taps; ++tap) {
    const uint from = t + tap * s.n;  // of (window, nv)
    const float c = from >= columns ? nv[(from - columns) * channels + i] : window[from * channels + i];
    const float w = conv_w[i * s.taps + tap];
    conv = tap == 0 ? w * c : fma(w, c, conv);
  }
  x[t * channels + i] = x[t * channels + i] + (v[t * channels + i] + argon::silu32(conv));
}

// Oldest first, so nothing is read after it was replaced.
kernel void ngram_window(device const float* nv [[buffer(0)]],
                         device float* window [[buffer(1)]],
                         constant NgramConvMetalArgs& s [[buffer(2)]],
                         uint i [[thread_position_in_grid]]) {
  const uint channels = s.channels, columns = (s.taps - 1) * s.n;
  if (i >= channels) return;
  for (uint j = 0; j < columns; ++j) {
    const uint from = s.T + j;
    window[j * channels + i] = from >= columns ? nv[(from - columns) * channels + i] : window[from * channels + i];
  }
}
