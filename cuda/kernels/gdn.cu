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

// The last 3 columns become a channel's history; oldest first, so nothing is read after it was replaced.
__device__ inline void replace_history(const ops::GdnPreArgs& a, int64_t ch, int64_t channel) {
  for (int64_t j = 0; j < 3; ++j) {
    const int64_t at = a.s.T - 3 + j;
    a.history[j * ch + channel] = at >= 0 ? a.qkv[at * ch + channel] : a.history[(at + 3) * ch + channel];
  }
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
constexpr int kRun = 4;                   // tokens at a time, so a column is loaded once for them
constexpr int kValueRun = 8;              // of a value head's warp
constexpr int kHeadsOfBlock = 4;

// silu32 without a branch, so that many of them run side by side. The argument of exp is held where the
// result is finite and its sum with 1 is not changed by going further; of y = 1 + exp >= 1 the approximation
// with one correction is the quotient 1/y, and above 2^126 that is subnormal, so +0. Equal to silu32 for
// every float, which was tried on the device (docs/lab/cuda-gdn.md).
__device__ inline float silu_branchless(float x) {
  const float y = 1.0f + exp32(fminf(fmaxf(-x, -87.3f), 88.7228f));
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  r = __fmaf_rn(r, __fmaf_rn(-y, r, 1.0f), r);
  return x * (y > 0x1p126f ? 0.0f : r);
}

// A head's columns of kRun tokens and the three before them.
struct Columns {
  float x[kRun + 3][kEach];
  float4 w[kEach];

  __device__ inline void load_weights(const ops::GdnPreArgs& a, int64_t channel) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) w[j] = reinterpret_cast<const float4*>(a.conv_w)[channel + 32 * j];
  }
  // Those from number kFrom on, all loaded before one is used; past the end the last token is taken again.
  template <int kFrom>
  __device__ inline void load(const ops::GdnPreArgs& a, int64_t ch, int64_t first, int64_t channel) {
#pragma unroll
    for (int i = kFrom; i < kRun + 3; ++i) {
      const int64_t at = min(first - 3 + i, a.s.T - 1);
      const float* from = at >= 0 ? a.qkv + at * ch : a.history + (at + 3) * ch;
#pragma unroll
      for (int j = 0; j < kEach; ++j) x[i][j] = from[channel + 32 * j];
    }
  }
  // On to the next kRun tokens.
  __device__ inline void advance(const ops::GdnPreArgs& a, int64_t ch, int64_t first, int64_t channel) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) x[i][j] = x[i + kRun][j];
    }
    load<3>(a, ch, first, channel);
  }
  // After the convolution.
  __device__ inline void conv(float (&y)[kRun][kEach]) const {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        float z = w[j].x * x[i][j];
        z = __fmaf_rn(w[j].y, x[i + 1][j], z);
        z = __fmaf_rn(w[j].z, x[i + 2][j], z);
        z = __fmaf_rn(w[j].w, x[i + 3][j], z);
        y[i][j] = silu_branchless(z);
      }
    }
  }
};

// The lane's part of the sum of a*b, to be folded.
__device__ inline float own_dot(const float (&a)[kEach], const float (&b)[kEach]) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kEach; ++j) sum = __fmaf_rn(a[j], b[j], sum);
  return sum;
}

// By the warps that alone read these channels' history, once they have.
__device__ inline void replace_histories(const ops::GdnPreArgs& a, int64_t ch, int64_t channel) {
#pragma unroll 1
  for (int j = 0; j < kEach; ++j) replace_history(a, ch, channel + 32 * j);
}

__device__ inline void pre_values(const ops::GdnPreArgs& a, int64_t head, int64_t first) {
  const ops::GdnShape& s = a.s;
  const int lane = lane_id();
  const int64_t ch = channel_count(s), channel = (2 * s.hk + head) * kD + lane;
  Columns v;
  v.load_weights(a, channel);
  v.load<0>(a, ch, first, channel);
#pragma unroll
  for (int run = 0; run < kValueRun; run += kRun) {
    float y[kRun][kEach];
    if (run > 0) v.advance(a, ch, first + run, channel);
    v.conv(y);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (first + run + i >= s.T) break;
      float* to = a.vc + ((first + run + i) * s.hv + head) * kD + lane;
#pragma unroll
      for (int j = 0; j < kEach; ++j) to[32 * j] = y[i][j];
    }
  }
  if (lane < kValueRun && first + lane < s.T) {
    const int64_t at = (first + lane) * s.hv + head;
    a.gb[at * 2] = exp32(a.a[head] * softplus32(a.alpha[at] + a.dt[head]));
    a.gb[at * 2 + 1] = sigmoid32(a.beta[at]);
  }
  if (first == 0) replace_histories(a, ch, channel);
}

__device__ inline void pre_keys(const ops::GdnPreArgs& a, int64_t head, int64_t first) {
  const ops::GdnShape& s = a.s;
  const int lane = lane_id();
  const int64_t ch = channel_count(s);
  float q[kRun][kEach], k[kRun][kEach];
  Columns columns;
  columns.load_weights(a, head * kD + lane);
  columns.load<0>(a, ch, first, head * kD + lane);
  columns.conv(q);
  columns.load_weights(a, (s.hk + head) * kD + lane);
  columns.load<0>(a, ch, first, (s.hk + head) * kD + lane);
  columns.conv(k);
  // Lane i works out the norm of q of token i, lane kRun + i that of k.
  float own = 0.0f;
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const float sum_q = fold32(own_dot(q[i], q[i])), sum_k = fold32(own_dot(k[i], k[i]));
    own = lane == i ? sum_q : lane == kRun + i ? sum_k : own;
  }
  const float r = __fdiv_rn(1.0f, __fsqrt_rn(own + a.eps)), scale = inverse_root(kD);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const float rq = __shfl_sync(kAllLanes, r, i), rk = __shfl_sync(kAllLanes, r, kRun + i);
#pragma unroll
    for (int j = 0; j < kEach; ++j) q[i][j] = (q[i][j] * rq) * scale, k[i][j] = k[i][j] * rk;
    const float kq = fold32(own_dot(k[i], q[i]));
    if (first + i >= s.T) continue;
    const int64_t at = (first + i) * s.hk + head;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      a.qn[at * kD + lane + 32 * j] = q[i][j];
      a.kn[at * kD + lane + 32 * j] = k[i][j];
    }
    if (lane == 0) a.kq[at] = kq;
  }
  if (first == 0) {
    replace_histories(a, ch, head * kD + lane);
    replace_histories(a, ch, (s.hk + head) * kD + lane);
  }
}

__host__ __device__ inline int count_of(int64_t n, int each) {
  return static_cast<int>((n + each - 1) / each);
}
__host__ __device__ inline int key_blocks(const ops::GdnShape& s) {
  return count_of(s.T, kRun) * count_of(s.hk, kHeadsOfBlock);
}

// gdn_pre for heads of 128. The first key_blocks() blocks take kRun tokens of kHeadsOfBlock key heads (q and
// k), one a warp; the others kValueRun tokens of as many value heads.
__global__ void __launch_bounds__(kHeadsOfBlock * 32, 6) gdn_pre_128(ops::GdnPreArgs a) {
  int block = static_cast<int>(blockIdx.x) - key_blocks(a.s);
  const bool keys = block < 0;
  if (keys) block += key_blocks(a.s);
  const int heads = static_cast<int>(keys ? a.s.hk : a.s.hv), groups = count_of(heads, kHeadsOfBlock);
  const int head = block % groups * kHeadsOfBlock + warp_id();
  const int64_t run = block / groups;
  if (head >= heads) return;
  keys ? pre_keys(a, head, run * kRun) : pre_values(a, head, run * kValueRun);
}

// After gdn_pre.
__global__ void gdn_history(ops::GdnPreArgs a) {
  const int64_t ch = channel_count(a.s), i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < ch) replace_history(a, ch, i);
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
  const int value_blocks = count_of(a.s.T, kValueRun) * count_of(a.s.hv, kHeadsOfBlock);
  queue.launch(gdn_pre_128, static_cast<unsigned>(key_blocks(a.s) + value_blocks), kHeadsOfBlock * 32, 0, a);
}

void run_general(Queue& queue, const ops::GdnPostArgs& a) {
  if (a.s.T > 0) queue.launch(gdn_post, blocks_for(a.s.T * a.s.hv, 8), 256, 0, a);
}

void run(Queue& queue, const ops::GdnPostArgs& a) { run_general(queue, a); }

}  // namespace argon::cuda
