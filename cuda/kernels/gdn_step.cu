// The gated delta rule for one token and heads of 128: three short kernels that start early. The state is
// 64 KB a head, read and written once; a block takes 32 value columns of a head, a thread four of them in one of
// the contract's eight parts of the key dimension.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kEach = kD / 32;  // values of a lane: i = lane + 32*j
constexpr int kWarps = 8;
constexpr int kColumns = 32, kParts = 8, kKeys = kD / kParts;

// One channel: the convolution, then its history moves on.
__device__ inline float conv_channel(const ops::GdnPreArgs& a, int64_t ch, int64_t channel) {
  const float4 w = reinterpret_cast<const float4*>(a.conv_w)[channel];
  float* h = a.history + channel;
  const float x0 = h[0], x1 = h[ch], x2 = h[2 * ch], x3 = a.qkv[channel];
  float conv = w.x * x0;
  conv = __fmaf_rn(w.y, x1, conv);
  conv = __fmaf_rn(w.z, x2, conv);
  conv = __fmaf_rn(w.w, x3, conv);
  h[0] = x1, h[ch] = x2, h[2 * ch] = x3;
  return silu32(conv);
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
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      a.vc[j * kD + 32 * i + lane] = conv_channel(a, ch, (2 * s.hk + j) * kD + 32 * i + lane);
    }
    if (lane == 0) {
      a.gb[j * 2] = exp32(a.a[j] * softplus32(a.alpha[j] + a.dt[j]));
      a.gb[j * 2 + 1] = sigmoid32(a.beta[j]);
    }
    return;
  }
  float q[kEach], k[kEach], qq = 0.0f, kk = 0.0f, kq = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    q[i] = conv_channel(a, ch, head * kD + 32 * i + lane);
    k[i] = conv_channel(a, ch, (s.hk + head) * kD + 32 * i + lane);
    qq = __fmaf_rn(q[i], q[i], qq);
    kk = __fmaf_rn(k[i], k[i], kk);
  }
  const float scale = inverse_root(kD);
  const float rq = __fdiv_rn(1.0f, __fsqrt_rn(fold32(qq) + a.eps));
  const float rk = __fdiv_rn(1.0f, __fsqrt_rn(fold32(kk) + a.eps));
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float qi = (q[i] * rq) * scale, ki = k[i] * rk;
    a.qn[head * kD + 32 * i + lane] = qi;
    a.kn[head * kD + 32 * i + lane] = ki;
    kq = __fmaf_rn(ki, qi, kq);
  }
  kq = fold32(kq);
  if (lane == 0) a.kq[head] = kq;
}

__device__ inline float sum_parts(const float (*part)[kColumns], int column) {
  return ((part[0][column] + part[1][column]) + (part[2][column] + part[3][column])) +
         ((part[4][column] + part[5][column]) + (part[6][column] + part[7][column]));
}

__global__ void __launch_bounds__(kParts * kColumns / 4) gdn_scan_one(ops::GdnScanArgs a) {
  __shared__ __align__(16) float part_k[kParts][kColumns], part_q[kParts][kColumns];
  start_dependents();
  const int part = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  const int64_t j = blockIdx.y, key_head = j % a.s.hk, column0 = int64_t{blockIdx.x} * kColumns + column;
  float* state = a.state + (j * kD + part * kKeys) * kD + column0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) asm volatile("prefetch.global.L2 [%0];" ::"l"(state + i * kD));
  wait_for_earlier();
  float4 S[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) S[i] = *reinterpret_cast<const float4*>(state + i * kD);
  float k[kKeys], q[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    k[i] = a.kn[key_head * kD + part * kKeys + i];
    q[i] = a.qn[key_head * kD + part * kKeys + i];
  }
  const float decay = a.gb[j * 2], beta = a.gb[j * 2 + 1], kq = a.kq[key_head];
  const float4 v = *reinterpret_cast<const float4*>(a.vc + j * kD + column0);
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
    const float m = decay * sum_parts(part_k, column + c);
    return beta * (value - m);
  };
  const float4 d = {delta(v.x, 0), delta(v.y, 1), delta(v.z, 2), delta(v.w, 3)};
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    *reinterpret_cast<float4*>(state + i * kD) = {
        __fmaf_rn(k[i], d.x, decay * S[i].x), __fmaf_rn(k[i], d.y, decay * S[i].y),
        __fmaf_rn(k[i], d.z, decay * S[i].z), __fmaf_rn(k[i], d.w, decay * S[i].w)};
  }
  if (part != 0) return;
  const auto out = [&](float dc, int c) { return __fmaf_rn(kq, dc, decay * sum_parts(part_q, column + c)); };
  *reinterpret_cast<float4*>(a.o + j * kD + column0) = {out(d.x, 0), out(d.y, 1), out(d.z, 2), out(d.w, 3)};
}

__global__ void __launch_bounds__(kWarps * 32) gdn_post_one(ops::GdnPostArgs a) {
  begin_early();
  const int64_t head = int64_t{blockIdx.x} * kWarps + warp_id();
  if (head >= a.s.hv) return;
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
    const float y = ((o[i] * r) * a.norm_w[32 * i + lane]) * sigmoid32(z[i]);
    a.y[head * kD + 32 * i + lane] = y;
    if (a.out_q.codes != nullptr) quantize32(y, a.out_q, head * kEach + i);
  }
}

bool fits(const ops::GdnShape& s) { return s.T == 1 && s.D == kD; }
bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace

bool gdn_one(Queue& queue, const ops::GdnPreArgs& a) {
  if (!fits(a.s) || !aligned(a.conv_w)) return false;
  queue.launch_early(gdn_pre_one, blocks_for(a.s.hk + a.s.hv, kWarps), kWarps * 32, 0, a);
  return true;
}

bool gdn_one(Queue& queue, const ops::GdnScanArgs& a) {
  if (!fits(a.s) || !aligned(a.state) || !aligned(a.vc) || !aligned(a.o)) return false;
  queue.launch_early(gdn_scan_one, dim3(kD / kColumns, static_cast<unsigned>(a.s.hv)), kParts * kColumns / 4, 0, a);
  return true;
}

bool gdn_one(Queue& queue, const ops::GdnPostArgs& a) {
  if (!fits(a.s)) return false;
  queue.launch_early(gdn_post_one, blocks_for(a.s.hv, kWarps), kWarps * 32, 0, a);
  return true;
}

}  // namespace argon::cuda
