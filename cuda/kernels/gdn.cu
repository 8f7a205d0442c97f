// The gated delta rule round its scan (gdn_scan.cu): convolution, norms and gates before it, norm and gate
// after it. A warp takes one head of one token.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

__device__ inline int64_t channel_count(const ops::GdnShape& s) { return (2 * s.hk + s.hv) * s.D; }

__device__ inline float conv_silu(const ops::GdnPreArgs& a, int64_t ch, int64_t t, int64_t channel) {
  const float4 w = reinterpret_cast<const float4*>(a.conv_w)[channel];
  const auto x = [&](int64_t at) {
    return at >= 0 ? a.qkv[at * ch + channel] : a.history[(at + 3) * ch + channel];
  };
  float conv = w.x * x(t - 3);
  conv = __fmaf_rn(w.y, x(t - 2), conv);
  conv = __fmaf_rn(w.z, x(t - 1), conv);
  conv = __fmaf_rn(w.w, x(t), conv);
  return silu32(conv);
}

// Values of a head are written and read again by the lane that owns them: index i belongs to lane i % 32.
__global__ void gdn_pre(ops::GdnPreArgs a) {
  const ops::GdnShape& s = a.s;
  const int64_t head = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) / 32, t = blockIdx.x;
  if (head >= s.hk + s.hv) return;
  const int64_t ch = channel_count(s);
  const int lane = lane_id();
  if (head >= s.hk) {
    const int64_t j = head - s.hk;
    float* v = a.vc + (t * s.hv + j) * s.D;
    for (int64_t i = lane; i < s.D; i += 32) v[i] = conv_silu(a, ch, t, (2 * s.hk + j) * s.D + i);
    if (lane == 0) {
      float* gb = a.gb + (t * s.hv + j) * 2;
      gb[0] = exp32(a.a[j] * softplus32(a.alpha[t * s.hv + j] + a.dt[j]));
      gb[1] = sigmoid32(a.beta[t * s.hv + j]);
    }
    return;
  }
  float* q = a.qn + (t * s.hk + head) * s.D;
  float* k = a.kn + (t * s.hk + head) * s.D;
  for (int64_t i = lane; i < s.D; i += 32) {
    q[i] = conv_silu(a, ch, t, head * s.D + i);
    k[i] = conv_silu(a, ch, t, (s.hk + head) * s.D + i);
  }
  const float scale = inverse_root(s.D);
  const float rq = __fdiv_rn(1.0f, __fsqrt_rn(warp_dot(q, q, s.D) + a.eps));
  const float rk = __fdiv_rn(1.0f, __fsqrt_rn(warp_dot(k, k, s.D) + a.eps));
  float acc = 0.0f;
  for (int64_t i = lane; i < s.D; i += 32) {
    const float qi = (q[i] * rq) * scale, ki = k[i] * rk;
    q[i] = qi;
    k[i] = ki;
    acc = __fmaf_rn(ki, qi, acc);
  }
  acc = fold32(acc);
  if (lane == 0) a.kq[t * s.hk + head] = acc;
}

constexpr int kD = 128, kEach = kD / 32;  // heads of 128: a lane holds values lane + 32*j
constexpr int kRun = 8;                   // tokens of a warp, so a column is loaded once for them

// The columns from `first` - 3 on of a head's channels, all loaded before the first is used.
struct Columns {
  float x[kRun + 3][kEach];
  float4 w[kEach];

  __device__ inline void load(const ops::GdnPreArgs& a, int64_t ch, int64_t first, int64_t channel) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) w[j] = reinterpret_cast<const float4*>(a.conv_w)[channel + 32 * j];
#pragma unroll
    for (int i = 0; i < kRun + 3; ++i) {
      const int64_t at = min(first - 3 + i, a.s.T - 1);
      const float* from = at >= 0 ? a.qkv + at * ch : a.history + (at + 3) * ch;
#pragma unroll
      for (int j = 0; j < kEach; ++j) x[i][j] = from[channel + 32 * j];
    }
  }
  // After the convolution, at the run's token i.
  __device__ inline float conv(int i, int j) const {
    float y = w[j].x * x[i][j];
    y = __fmaf_rn(w[j].y, x[i + 1][j], y);
    y = __fmaf_rn(w[j].z, x[i + 2][j], y);
    y = __fmaf_rn(w[j].w, x[i + 3][j], y);
    return silu32(y);
  }
};

__device__ inline float inverse_norm(const float (&x)[kEach], float eps) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kEach; ++j) sum = __fmaf_rn(x[j], x[j], sum);
  return __fdiv_rn(1.0f, __fsqrt_rn(fold32(sum) + eps));
}

// gdn_pre for heads of 128: a warp takes a key head (q and k) or a value head of kRun tokens.
__global__ void __launch_bounds__(128) gdn_pre_128(ops::GdnPreArgs a) {
  const ops::GdnShape& s = a.s;
  const int64_t head = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) / 32,
                first = int64_t{blockIdx.x} * kRun;
  if (head >= s.hk + s.hv) return;
  const int64_t ch = channel_count(s);
  const int lane = lane_id(), count = static_cast<int>(min(s.T - first, int64_t{kRun}));
  Columns q;
  if (head >= s.hk) {
    const int64_t j = head - s.hk;
    q.load(a, ch, first, (s.hk + head) * kD + lane);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (i >= count) break;
      float* v = a.vc + ((first + i) * s.hv + j) * kD + lane;
#pragma unroll
      for (int c = 0; c < kEach; ++c) v[32 * c] = q.conv(i, c);
    }
    if (lane < count) {
      const int64_t at = (first + lane) * s.hv + j;
      a.gb[at * 2] = exp32(a.a[j] * softplus32(a.alpha[at] + a.dt[j]));
      a.gb[at * 2 + 1] = sigmoid32(a.beta[at]);
    }
    return;
  }
  Columns k;
  q.load(a, ch, first, head * kD + lane);
  k.load(a, ch, first, (s.hk + head) * kD + lane);
  const float scale = inverse_root(kD);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (i >= count) break;
    float qc[kEach], kc[kEach], acc = 0.0f;
#pragma unroll
    for (int c = 0; c < kEach; ++c) qc[c] = q.conv(i, c), kc[c] = k.conv(i, c);
    const float rq = inverse_norm(qc, a.eps), rk = inverse_norm(kc, a.eps);
    const int64_t at = (first + i) * s.hk + head;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const float qi = (qc[c] * rq) * scale, ki = kc[c] * rk;
      a.qn[at * kD + lane + 32 * c] = qi;
      a.kn[at * kD + lane + 32 * c] = ki;
      acc = __fmaf_rn(ki, qi, acc);
    }
    acc = fold32(acc);
    if (lane == 0) a.kq[at] = acc;
  }
}

// After gdn_pre: the last 3 columns become the history; oldest first, so nothing is read after it was
// replaced.
__global__ void gdn_history(ops::GdnPreArgs a) {
  const int64_t ch = channel_count(a.s), i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= ch) return;
  for (int64_t j = 0; j < 3; ++j) {
    const int64_t at = a.s.T - 3 + j;
    a.history[j * ch + i] = at >= 0 ? a.qkv[at * ch + i] : a.history[(at + 3) * ch + i];
  }
}

__global__ void gdn_post(ops::GdnPostArgs a) {
  const ops::GdnShape& s = a.s;
  const int64_t head = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (head >= s.T * s.hv) return;
  const float* o = a.o + head * s.D;
  const float r = inverse_rms(warp_dot(o, o, s.D), s.D, a.eps);
  for (int64_t i = lane_id(); i < s.D; i += 32) {
    a.y[head * s.D + i] = ((o[i] * r) * a.norm_w[i]) * sigmoid32(a.z[head * s.D + i]);
  }
}

}  // namespace

void run_general(Queue& queue, const ops::GdnPreArgs& a) {
  if (a.s.T > 0) {
    queue.launch(gdn_pre, dim3(static_cast<unsigned>(a.s.T), blocks_for(a.s.hk + a.s.hv, 8)), 256, 0, a);
  }
  queue.launch(gdn_history, blocks_for(channels(a.s), 256), 256, 0, a);
}

void run(Queue& queue, const ops::GdnPreArgs& a) {
  if (a.s.T == 0 || a.s.D != kD || !aligned(a.conv_w)) return run_general(queue, a);
  queue.launch(gdn_pre_128, dim3(blocks_for(a.s.T, kRun), blocks_for(a.s.hk + a.s.hv, 4)), 128, 0, a);
  queue.launch(gdn_history, blocks_for(channels(a.s), 256), 256, 0, a);
}

void run_general(Queue& queue, const ops::GdnPostArgs& a) {
  if (a.s.T > 0) queue.launch(gdn_post, blocks_for(a.s.T * a.s.hv, 8), 256, 0, a);
}

void run(Queue& queue, const ops::GdnPostArgs& a) { run_general(queue, a); }

}  // namespace argon::cuda
