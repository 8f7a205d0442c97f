// The gated delta rule for one token and heads of 128: three short kernels that start early. The state is
// 64 KB a head, read and written once; a block takes 32 value columns of a head, a thread four of them in one
// of the contract's eight parts of the key dimension.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kEach = kD / 32;  // values of a lane: i = lane + 32*j
constexpr int kWarps = 8;
constexpr int kColumns = 32, kParts = 8, kKeys = kD / kParts;

// One channel after its convolution.
__device__ inline float conv_channel(const ops::GdnPreArgs& a, int64_t ch, int64_t channel) {
  const float4 w = reinterpret_cast<const float4*>(a.conv_w)[channel];
  const float* h = a.history + channel;
  float conv = w.x * h[0];
  conv = __fmaf_rn(w.y, h[ch], conv);
  conv = __fmaf_rn(w.z, h[2 * ch], conv);
  conv = __fmaf_rn(w.w, a.qkv[channel], conv);
  return silu32(conv);
}
__device__ inline void move_history(const ops::GdnPreArgs& a, int64_t ch, int64_t channel) {
  float* h = a.history + channel;
  const float x1 = h[ch], x2 = h[2 * ch], x3 = a.qkv[channel];
  h[0] = x1, h[ch] = x2, h[2 * ch] = x3;
}
// In place: the L2 norm of a head whose lane holds values lane + 32*i.
__device__ inline float inverse_norm(const float (&x)[kEach], float eps) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum = __fmaf_rn(x[i], x[i], sum);
  return __fdiv_rn(1.0f, __fsqrt_rn(fold32(sum) + eps));
}

// A warp per key head (q and k), then per value head.
__global__ void __launch_bounds__(kWarps * 32) gdn_pre_one(ops::GdnPreArgs a) {
  begin_early();
  const ops::GdnShape& s = a.s;
  const int64_t head = int64_t{blockIdx.x} * kWarps + warp_id();
  if (head >= s.hk + s.hv) return;
  const int64_t ch = (2 * s.hk + s.hv) * kD;
  const int lane = lane_id();
  if (head >= s.hk) {
    const int64_t j = head - s.hk;
    float v[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) v[i] = conv_channel(a, ch, (2 * s.hk + j) * kD + 32 * i + lane);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      a.vc[j * kD + 32 * i + lane] = v[i];
      move_history(a, ch, (2 * s.hk + j) * kD + 32 * i + lane);
    }
    if (lane == 0) {
      a.gb[j * 2] = exp32(a.a[j] * softplus32(a.alpha[j] + a.dt[j]));
      a.gb[j * 2 + 1] = sigmoid32(a.beta[j]);
    }
    return;
  }
  float q[kEach], k[kEach], kq = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    q[i] = conv_channel(a, ch, head * kD + 32 * i + lane);
    k[i] = conv_channel(a, ch, (s.hk + head) * kD + 32 * i + lane);
  }
  const float scale = inverse_root(kD), rq = inverse_norm(q, a.eps), rk = inverse_norm(k, a.eps);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float qi = (q[i] * rq) * scale, ki = k[i] * rk;
    a.qn[head * kD + 32 * i + lane] = qi;
    a.kn[head * kD + 32 * i + lane] = ki;
    kq = __fmaf_rn(ki, qi, kq);
    move_history(a, ch, head * kD + 32 * i + lane);
    move_history(a, ch, (s.hk + head) * kD + 32 * i + lane);
  }
  kq = fold32(kq);
  if (lane == 0) a.kq[head] = kq;
}

__device__ inline float sum_parts(const float (*part)[kColumns], int column) {
  return ((part[0][column] + part[1][column]) + (part[2][column] + part[3][column])) +
         ((part[4][column] + part[5][column]) + (part[6][column] + part[7][column]));
}

// What a token brings to a head, and where its values and outputs are.
struct Token {
  float decay, beta, kq;
  float4 v;
};

constexpr int kScanThreads = kParts * kColumns / 4;
using Parts = float[kParts][kColumns];

__device__ inline void load_state(const float* state, float4 (&S)[kKeys]) {
#pragma unroll
  for (int i = 0; i < kKeys; ++i) S[i] = *reinterpret_cast<const float4*>(state + i * kD);
}
// k and q: this thread's part of the key dimension.
__device__ inline void step_state(float* state, float4 (&S)[kKeys], const float* k_part, const float* q_part,
                                  const Token& t, Parts& part_k, Parts& part_q, float* o) {
  const int part = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  float k[kKeys], q[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) k[i] = k_part[i], q[i] = q_part[i];
  float4 pk{}, pq{};
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    pk = {__fmaf_rn(k[i], S[i].x, pk.x), __fmaf_rn(k[i], S[i].y, pk.y), __fmaf_rn(k[i], S[i].z, pk.z),
          __fmaf_rn(k[i], S[i].w, pk.w)};
    pq = {__fmaf_rn(q[i], S[i].x, pq.x), __fmaf_rn(q[i], S[i].y, pq.y), __fmaf_rn(q[i], S[i].z, pq.z),
          __fmaf_rn(q[i], S[i].w, pq.w)};
  }
  *reinterpret_cast<float4*>(&part_k[part][column]) = pk;
  *reinterpret_cast<float4*>(&part_q[part][column]) = pq;
  __syncthreads();
  const auto delta = [&](float value, int c) {
    const float m = t.decay * sum_parts(part_k, column + c);
    return t.beta * (value - m);
  };
  const float4 d = {delta(t.v.x, 0), delta(t.v.y, 1), delta(t.v.z, 2), delta(t.v.w, 3)};
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    *reinterpret_cast<float4*>(state + i * kD) = {
        __fmaf_rn(k[i], d.x, t.decay * S[i].x), __fmaf_rn(k[i], d.y, t.decay * S[i].y),
        __fmaf_rn(k[i], d.z, t.decay * S[i].z), __fmaf_rn(k[i], d.w, t.decay * S[i].w)};
  }
  if (part != 0) return;
  const auto out = [&](float dc, int c) {
    return __fmaf_rn(t.kq, dc, t.decay * sum_parts(part_q, column + c));
  };
  *reinterpret_cast<float4*>(o) = {out(d.x, 0), out(d.y, 1), out(d.z, 2), out(d.w, 3)};
}

__global__ void __launch_bounds__(kScanThreads) gdn_scan_one(ops::GdnScanArgs a) {
  __shared__ __align__(16) Parts part_k, part_q;
  start_dependents();
  const int part = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  const int64_t j = blockIdx.y, key_head = j % a.s.hk, column0 = int64_t{blockIdx.x} * kColumns + column;
  float* state = a.state + (j * kD + part * kKeys) * kD + column0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) asm volatile("prefetch.global.L2 [%0];" ::"l"(state + i * kD));
  wait_for_earlier();
  float4 S[kKeys];
  load_state(state, S);
  const Token t{a.gb[j * 2], a.gb[j * 2 + 1], a.kq[key_head],
                *reinterpret_cast<const float4*>(a.vc + j * kD + column0)};
  step_state(state, S, a.kn + key_head * kD + part * kKeys, a.qn + key_head * kD + part * kKeys, t, part_k,
             part_q, a.o + j * kD + column0);
}

struct DeltaParams {
  ops::GdnPreArgs pre;
  ops::GdnScanArgs scan;
  ops::GdnPostArgs post;
};

// gdn_pre and gdn_scan: every block makes its key head's q and k itself. The history moves on in delta_post.
__global__ void __launch_bounds__(kScanThreads) delta_scan(DeltaParams p) {
  __shared__ __align__(16) Parts part_k, part_q;
  __shared__ __align__(16) float q_row[kD], k_row[kD], v_row[kColumns];
  start_dependents();
  const ops::GdnPreArgs& a = p.pre;
  const int part = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  const int lane = lane_id(), hk = static_cast<int>(a.s.hk), j = static_cast<int>(blockIdx.y),
            key_head = j % hk;
  const int64_t ch = (2 * a.s.hk + a.s.hv) * kD;
  float* state = p.scan.state + (int64_t{j} * kD + part * kKeys) * kD + blockIdx.x * kColumns + column;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) asm volatile("prefetch.global.L2 [%0];" ::"l"(state + i * kD));
  wait_for_earlier();
  float4 S[kKeys];
  load_state(state, S);
  // Warp 0: q and this block's values; warp 1: k.
  const bool is_q = warp_id() == 0;
  float x[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    x[i] = conv_channel(a, ch, (is_q ? key_head : hk + key_head) * kD + 32 * i + lane);
  if (is_q) v_row[lane] = conv_channel(a, ch, (2 * hk + j) * kD + blockIdx.x * kColumns + lane);
  Token t{};
  t.decay = exp32(a.a[j] * softplus32(a.alpha[j] + a.dt[j]));
  t.beta = sigmoid32(a.beta[j]);
  const float r = inverse_norm(x, a.eps), scale = inverse_root(kD);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float y = x[i] * r;
    if (is_q) {
      q_row[32 * i + lane] = y * scale;
    } else {
      k_row[32 * i + lane] = y;
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kEach; ++i) t.kq = __fmaf_rn(k_row[32 * i + lane], q_row[32 * i + lane], t.kq);
  t.kq = fold32(t.kq);
  t.v = *reinterpret_cast<const float4*>(v_row + column);
  step_state(state, S, k_row + part * kKeys, q_row + part * kKeys, t, part_k, part_q,
             p.scan.o + j * kD + blockIdx.x * kColumns + column);
}

__device__ inline void post_head(const ops::GdnPostArgs& a, int64_t head) {
  const int lane = lane_id();
  float o[kEach], z[kEach], acc = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    o[i] = a.o[head * kD + 32 * i + lane];
    z[i] = a.z[head * kD + 32 * i + lane];
    acc = __fmaf_rn(o[i], o[i], acc);
  }
  const float r = inverse_rms(fold32(acc), kD, a.eps);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    o[i] = ((o[i] * r) * a.norm_w[32 * i + lane]) * sigmoid32(z[i]);
    a.y[head * kD + 32 * i + lane] = o[i];
  }
  if (a.out_q.codes != nullptr) quantize32_each<kEach>(o, a.out_q, head * kEach, 1);
}

// Any number of tokens.
__global__ void __launch_bounds__(kWarps * 32) gdn_post_heads(ops::GdnPostArgs a) {
  begin_early();
  const int64_t head = int64_t{blockIdx.x} * kWarps + warp_id();
  if (head < a.s.T * a.s.hv) post_head(a, head);
}

// gdn_post, and in further blocks the history.
__global__ void __launch_bounds__(kWarps * 32) delta_post(DeltaParams p) {
  begin_early();
  const int64_t heads = p.post.s.hv, head_blocks = (heads + kWarps - 1) / kWarps;
  if (blockIdx.x < head_blocks) {
    const int64_t head = int64_t{blockIdx.x} * kWarps + warp_id();
    if (head < heads) post_head(p.post, head);
    return;
  }
  const int64_t ch = (2 * p.pre.s.hk + p.pre.s.hv) * kD;
  const int64_t channel = (blockIdx.x - head_blocks) * kWarps * 32 + threadIdx.x;
  if (channel < ch) move_history(p.pre, ch, channel);
}

bool fits(const ops::GdnShape& s) { return s.T == 1 && s.D == kD; }

}  // namespace

bool gdn_one(Queue& queue, const ops::GdnPreArgs& a) {
  if (!fits(a.s) || !aligned(a.conv_w)) return false;
  queue.launch_early(gdn_pre_one, blocks_for(a.s.hk + a.s.hv, kWarps), kWarps * 32, 0, a);
  return true;
}

bool gdn_one(Queue& queue, const ops::GdnScanArgs& a) {
  if (!fits(a.s) || !aligned(a.state) || !aligned(a.vc) || !aligned(a.o)) return false;
  queue.launch_early(gdn_scan_one, dim3(kD / kColumns, static_cast<unsigned>(a.s.hv)), kParts * kColumns / 4,
                     0, a);
  return true;
}

bool gdn_one(Queue& queue, const ops::GdnPostArgs& a) {
  if (a.s.D != kD || a.s.T < 1 || reinterpret_cast<uintptr_t>(a.out_q.sums) % 4 != 0) return false;
  queue.launch_early(gdn_post_heads, blocks_for(a.s.T * a.s.hv, kWarps), kWarps * 32, 0, a);
  return true;
}

bool delta(Queue& queue, const ops::GdnPreArgs& pre, const ops::GdnScanArgs& scan,
           const ops::GdnPostArgs& post) {
  if (!fits(pre.s) || !fits(scan.s) || !fits(post.s) || !aligned(pre.conv_w) || !aligned(scan.state) ||
      !aligned(scan.o) || post.o != scan.o) {
    return false;
  }
  const DeltaParams p{pre, scan, post};
  queue.launch_early(delta_scan, dim3(kD / kColumns, static_cast<unsigned>(pre.s.hv)), kScanThreads, 0, p);
  const int64_t ch = (2 * pre.s.hk + pre.s.hv) * kD;
  queue.launch_early(delta_post, blocks_for(pre.s.hv, kWarps) + blocks_for(ch, kWarps * 32), kWarps * 32, 0,
                     p);
  return true;
}

}  // namespace argon::cuda
