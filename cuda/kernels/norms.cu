// Everything with a norm over rows: rms_norm, gr_norm, the n-gram gate. From 512 values on a block of 256
// threads takes a row, which is the contract's sum256 as it stands; below, a warp does.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

__global__ void rms_norm(ops::RmsNormArgs a) {
  begin_early();
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= a.rows) return;
  const float* x = a.x + i / a.group * a.x_stride + i % a.group * a.x_inner;
  float* y = a.y + i / a.group * a.y_stride + i % a.group * a.y_inner;
  const float r = inverse_rms(warp_dot(x, x, a.n), a.n, a.eps);
  for (int64_t k = lane_id(); k < a.n; k += 32) y[k] = (x[k] * r) * a.w[k];
}

// One value of n; a warp writes whole blocks of 32 when the quantised form is wanted.
__device__ inline void write_n(const ops::GrNormArgs& a, int64_t at, float n) {
  a.n[at] = n;
  if (a.out_q.codes != nullptr) quantize32(n, a.out_q, at / 32);
}

// Stream u of n by a block of 256 threads, which hold values threadIdx.x + 256*i of it.
template <int kOwn>
__device__ inline void write_row(const ops::GrNormArgs& a, int64_t u, float (&v)[kOwn], float r,
                                 const float (&scale)[kOwn]) {
  float* n = a.n + u * a.H + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    v[i] = (v[i] * r) * scale[i];
    n[256 * i] = v[i];
  }
  if (a.out_q.codes != nullptr) quantize32_each<kOwn>(v, a.out_q, u * a.H / 32 + warp_id(), 8);
}

__global__ void gr_norm_small(ops::GrNormArgs a) {
  begin_early();
  const int64_t u = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (u >= a.T * a.C) return;
  float* x = a.x + u * a.H;
  if (a.b != nullptr) {
    const float* b = a.b + u / a.C * a.H;
    const float g = __fdiv_rn(2.0f, 1.0f + exp32(-a.inj[u]));
    for (int64_t k = lane_id(); k < a.H; k += 32) x[k] = __fmaf_rn(g, b[k], x[k]);
  }
  const float r = inverse_rms(warp_dot(x, x, a.H), a.H, a.eps);
  const float* w = a.w + u % a.C * a.H;
  for (int64_t k = lane_id(); k < a.H; k += 32) write_n(a, u * a.H + k, (x[k] * r) * w[k]);
}

// H >= 512. kOwn values of a thread stay in registers (H = 256*kOwn); 0: any H, read again.
template <int kOwn>
__global__ void __launch_bounds__(256) gr_norm(ops::GrNormArgs a) {
  begin_early();
  __shared__ float parts[8];
  const int64_t u = blockIdx.x;
  float* x = a.x + u * a.H;
  const float* w = a.w + u % a.C * a.H;
  const float* b = a.b == nullptr ? nullptr : a.b + u / a.C * a.H;
  const float g = b == nullptr ? 0.0f : __fdiv_rn(2.0f, 1.0f + exp32(-a.inj[u]));
  float acc = 0.0f;
  if constexpr (kOwn > 0) {
    float v[kOwn], scale[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      v[i] = x[threadIdx.x + 256 * i];
      scale[i] = w[threadIdx.x + 256 * i];
    }
    if (b != nullptr) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        v[i] = __fmaf_rn(g, b[threadIdx.x + 256 * i], v[i]);
        x[threadIdx.x + 256 * i] = v[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) acc = __fmaf_rn(v[i], v[i], acc);
    const float r = inverse_rms(block_fold256(acc, parts), a.H, a.eps);
    write_row(a, u, v, r, scale);
  } else {
    for (int64_t k = threadIdx.x; k < a.H; k += 256) {
      float v = x[k];
      if (b != nullptr) x[k] = v = __fmaf_rn(g, b[k], v);
      acc = __fmaf_rn(v, v, acc);
    }
    const float r = inverse_rms(block_fold256(acc, parts), a.H, a.eps);
    for (int64_t k = threadIdx.x; k < a.H; k += 256) write_n(a, u * a.H + k, (x[k] * r) * w[k]);
  }
}

// H = 256*kOwn, many tokens: a block keeps one stream's weights and takes every (gridDim.x / C)-th token of
// that stream, the next one's values on their way while this one is worked on. gridDim.x is a multiple of C.
template <int kOwn>
__global__ void __launch_bounds__(256, 3) gr_norm_rows(ops::GrNormArgs a) {
  __shared__ float parts[2][8];
  start_dependents();
  const int64_t c = blockIdx.x % a.C, step = gridDim.x / a.C;
  const int tid = static_cast<int>(threadIdx.x);
  float scale[kOwn], v[kOwn], b[kOwn], inj = 0.0f;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) scale[i] = a.w[c * a.H + tid + 256 * i];
  wait_for_earlier();
  const auto load = [&](int64_t t, float(&to)[kOwn], float(&to_b)[kOwn]) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) to[i] = a.x[(t * a.C + c) * a.H + tid + 256 * i];
    if (a.b == nullptr) return;
    inj = a.inj[t * a.C + c];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) to_b[i] = a.b[t * a.H + tid + 256 * i];
  };
  int64_t t = blockIdx.x / a.C;
  if (t >= a.T) return;
  load(t, v, b);
  for (int buffer = 0;; buffer ^= 1) {
    const int64_t u = t * a.C + c, next = t + step;
    if (a.b != nullptr) {
      const float g = __fdiv_rn(2.0f, 1.0f + exp32(-inj));
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        v[i] = __fmaf_rn(g, b[i], v[i]);
        a.x[u * a.H + tid + 256 * i] = v[i];
      }
    }
    float then[kOwn];
    if (next < a.T) load(next, then, b);
    float acc = 0.0f;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) acc = __fmaf_rn(v[i], v[i], acc);
    const float r = inverse_rms(block_fold256(acc, parts[buffer]), a.H, a.eps);
    write_row(a, u, v, r, scale);
    if (next >= a.T) return;
    t = next;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) v[i] = then[i];
  }
}

struct CombinedNorm {
  ops::MoeCombineArgs combine;
  ops::GrNormArgs norm;
};

// H = 2560, few tokens: the norm with the combine's output computed where it is read, once for each stream.
__global__ void __launch_bounds__(256) gr_norm_combined(CombinedNorm p) {
  constexpr int kOwn = 10, kHalf = 5, kSlots = 10;
  __shared__ float parts[8];
  start_dependents();
  const ops::GrNormArgs& a = p.norm;
  const ops::MoeCombineArgs& m = p.combine;
  const int64_t u = blockIdx.x, t = u / a.C;
  const int tid = static_cast<int>(threadIdx.x);
  const float* w = a.w + u % a.C * a.H;
  float scale[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) scale[i] = w[tid + 256 * i];
  wait_for_earlier();
  float* x = a.x + u * a.H;
  const float g = __fdiv_rn(2.0f, 1.0f + exp32(-a.inj[u])), sg = m.sg[t];
  float v[kOwn], acc = 0.0f;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) v[i] = x[tid + 256 * i];
#pragma unroll
  for (int half = 0; half < kOwn; half += kHalf) {
    float b[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) b[i] = sg * m.shared[t * a.H + tid + 256 * (half + i)];
    for (int64_t k0 = 0; k0 < m.K; k0 += kSlots) {
      float y[kSlots][kHalf], weight[kSlots];
      bool there[kSlots];
#pragma unroll
      for (int k = 0; k < kSlots; ++k) {
        const int64_t slot = k0 + k < m.K ? m.slot[t * m.K + k0 + k] : -1;
        there[k] = slot >= 0;
        weight[k] = there[k] ? m.w[t * m.K + k0 + k] : 0.0f;
#pragma unroll
        for (int i = 0; i < kHalf; ++i) {
          y[k][i] = there[k] ? m.y[slot * a.H + tid + 256 * (half + i)] : 0.0f;
        }
      }
#pragma unroll
      for (int k = 0; k < kSlots; ++k) {
#pragma unroll
        for (int i = 0; i < kHalf; ++i) b[i] = there[k] ? __fmaf_rn(weight[k], y[k][i], b[i]) : b[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) v[half + i] = __fmaf_rn(g, b[i], v[half + i]);
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    x[tid + 256 * i] = v[i];
    acc = __fmaf_rn(v[i], v[i], acc);
  }
  const float r = inverse_rms(block_fold256(acc, parts), a.H, a.eps);
  write_row(a, u, v, r, scale);
}

// A warp per stream; the normed query is recomputed instead of kept.
__global__ void ngram_gate(ops::NgramGateArgs a) {
  begin_early();
  const int64_t u = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (u >= a.T * a.C) return;
  const int64_t t = u / a.C, c = u % a.C;
  float* key = a.key + u * a.H;
  float* v = a.v + u * a.H;
  const float* x = a.x + u * a.H;
  const float *w_key = a.w_key + c * a.H, *w_query = a.w_query + c * a.H, *w_conv = a.w_conv + c * a.H;
  const float* value = a.value + t * a.H;
  const float rk = inverse_rms(warp_dot(key, key, a.H), a.H, a.eps);
  for (int64_t i = lane_id(); i < a.H; i += 32) key[i] = (key[i] * rk) * w_key[i];
  const float rq = inverse_rms(warp_dot(x, x, a.H), a.H, a.eps);
  const float dot =
      warp_sum(a.H, [&](float acc, int64_t i) { return __fmaf_rn(key[i], (x[i] * rq) * w_query[i], acc); });
  const float s = dot * inverse_root(a.H);
  const float size = fabsf(s) < 1e-6f ? 1e-6f : fabsf(s);
  const float gate = s == 0.0f ? 0.5f : sigmoid32(copysignf(__fsqrt_rn(size), s));
  for (int64_t i = lane_id(); i < a.H; i += 32) v[i] = gate * value[i];
  const float rv = inverse_rms(warp_dot(v, v, a.H), a.H, a.eps);
  for (int64_t i = lane_id(); i < a.H; i += 32) a.nv[u * a.H + i] = (v[i] * rv) * w_conv[i];
}

// The same by a block of 256 threads for H >= 512, which are the lanes of sum256.
__global__ void __launch_bounds__(256) ngram_gate_wide(ops::NgramGateArgs a) {
  __shared__ float parts[4][8];
  begin_early();
  const int64_t u = blockIdx.x, t = u / a.C, c = u % a.C;
  float* key = a.key + u * a.H;
  float* v = a.v + u * a.H;
  const float* x = a.x + u * a.H;
  const float *w_key = a.w_key + c * a.H, *w_query = a.w_query + c * a.H, *w_conv = a.w_conv + c * a.H;
  const float* value = a.value + t * a.H;
  float kk = 0.0f, xx = 0.0f, dot = 0.0f, vv = 0.0f;
#pragma unroll 5
  for (int64_t i = threadIdx.x; i < a.H; i += 256) {
    const float k = key[i], q = x[i];
    kk = __fmaf_rn(k, k, kk);
    xx = __fmaf_rn(q, q, xx);
  }
  const float rk = inverse_rms(block_fold256(kk, parts[0]), a.H, a.eps);
  const float rq = inverse_rms(block_fold256(xx, parts[1]), a.H, a.eps);
#pragma unroll 5
  for (int64_t i = threadIdx.x; i < a.H; i += 256) {
    const float k = (key[i] * rk) * w_key[i];
    key[i] = k;
    dot = __fmaf_rn(k, (x[i] * rq) * w_query[i], dot);
  }
  const float s = block_fold256(dot, parts[2]) * inverse_root(a.H);
  const float size = fabsf(s) < 1e-6f ? 1e-6f : fabsf(s);
  const float gate = s == 0.0f ? 0.5f : sigmoid32(copysignf(__fsqrt_rn(size), s));
#pragma unroll 5
  for (int64_t i = threadIdx.x; i < a.H; i += 256) {
    const float g = gate * value[i];
    v[i] = g;
    vv = __fmaf_rn(g, g, vv);
  }
  const float rv = inverse_rms(block_fold256(vv, parts[3]), a.H, a.eps);
#pragma unroll 5
  for (int64_t i = threadIdx.x; i < a.H; i += 256) a.nv[u * a.H + i] = (v[i] * rv) * w_conv[i];
}

}  // namespace

void run(Queue& queue, const ops::RmsNormArgs& a) {
  if (a.rows > 0) queue.launch_early(rms_norm, blocks_for(a.rows, 4), 128, 0, a);
}

void run_general(Queue& queue, const ops::GrNormArgs& a) {
  const int64_t rows = a.T * a.C;
  if (rows == 0) return;
  if (a.H < 512) {
    queue.launch_early(gr_norm_small, blocks_for(rows, 4), 128, 0, a);
  } else if (a.H == 2560) {
    queue.launch_early(gr_norm<10>, static_cast<unsigned>(rows), 256, 0, a);
  } else {
    queue.launch_early(gr_norm<0>, static_cast<unsigned>(rows), 256, 0, a);
  }
}

void run(Queue& queue, const ops::GrNormArgs& a) {
  const int64_t blocks = 3 * queue.processors() / a.C * a.C;
  if (a.H != 2560 || blocks == 0 || a.T * a.C < 2 * blocks) return run_general(queue, a);
  queue.launch_early(gr_norm_rows<10>, static_cast<unsigned>(blocks), 256, 0, a);
}

bool combined_norm(Queue& queue, const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) {
  constexpr int64_t kFewTokens = 8;
  if (norm.H != 2560 || combine.H != norm.H || norm.T < 1 || norm.T > kFewTokens || combine.T != norm.T ||
      norm.b != combine.out) {
    return false;
  }
  queue.launch_early(gr_norm_combined, static_cast<unsigned>(norm.T * norm.C), 256, 0,
                     CombinedNorm{combine, norm});
  return true;
}

void run(Queue& queue, const ops::NgramGateArgs& a) {
  if (a.T == 0) return;
  if (a.H < 512) {
    queue.launch_early(ngram_gate, blocks_for(a.T * a.C, 4), 128, 0, a);
  } else {
    queue.launch_early(ngram_gate_wide, static_cast<unsigned>(a.T * a.C), 256, 0, a);
  }
}

}  // namespace argon::cuda
