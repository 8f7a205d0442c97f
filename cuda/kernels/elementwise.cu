// Operations whose values do not depend on each other: rotary, cache writes, gated activation, the apply,
// gate and mix of the gated residual, the MoE combine, the n-gram hash and convolution. One thread a value;
// where the quantised form is wanted, a warp holds whole blocks of 32 (the operations' widths are then
// multiples of 32). The ..._wide kernels give a thread four values and a warp 128: for widths that are
// multiples of 128 and arrays on 16 bytes.
#include <cstring>

#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline int64_t thread_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void rope(ops::RopeArgs a) {
  begin_early();
  const int64_t half = a.rot / 2, at = thread_index();
  if (at >= a.rows * a.heads * half) return;
  const int64_t i = at % half, h = at / half % a.heads, t = at / half / a.heads;
  const float* c = a.table + (a.position0 + t * a.position_step) * a.rot;
  float* x = a.x + t * a.stride + h * a.inner;
  const float x1 = x[i], x2 = x[i + half], s = c[half + i];
  x[i] = __fmaf_rn(x1, c[i], -(x2 * s));
  x[i + half] = __fmaf_rn(x2, c[i], x1 * s);
}

__global__ void kv_store(ops::KvStoreArgs a) {
  begin_early();
  const int64_t at = thread_index();
  if (at >= a.rows * a.n) return;
  const int64_t t = at / a.n, i = at % a.n;
  const float x = a.x[t * a.stride + i];
  const int64_t to = (a.position0 + t) * a.n + i;
  if (a.type == ops::KvType::kF32) {
    static_cast<float*>(a.dst)[to] = x;
  } else {
    static_cast<uint16_t*>(a.dst)[to] = f32_to_f16(x);
  }
}

__global__ void swiglu(ops::SwigluArgs a) {
  begin_early();
  const int64_t i = thread_index();
  if (i >= a.rows * a.F) return;
  const float h = silu32(a.g[i]) * a.u[i];
  a.h[i] = h;
  if (a.out_q.codes != nullptr) quantize32(h, a.out_q, i / 32);
}

__global__ void swiglu_wide(ops::SwigluArgs a) {
  begin_early();
  const int64_t i = thread_index() * 4;
  if (i >= a.rows * a.F) return;
  const float4 g = load4(a.g + i), u = load4(a.u + i);
  const float4 h = {silu32(g.x) * u.x, silu32(g.y) * u.y, silu32(g.z) * u.z, silu32(g.w) * u.w};
  store4(a.h + i, h);
  if (a.out_q.codes != nullptr) quantize128(h, a.out_q, (i - 4 * lane_id()) / 32);
}

__global__ void gr_apply(ops::GrApplyArgs a) {
  begin_early();
  const int64_t at = thread_index();
  if (at >= a.T * a.C * a.H) return;
  const int64_t k = at % a.H, u = at / a.H;
  const float g = __fdiv_rn(2.0f, 1.0f + exp32(-a.inj[u]));
  a.x[at] = __fmaf_rn(g, a.b[u / a.C * a.H + k], a.x[at]);
}

__global__ void gr_apply_wide(ops::GrApplyArgs a) {
  begin_early();
  const int64_t at = thread_index() * 4;
  if (at >= a.T * a.C * a.H) return;
  const int64_t k = at % a.H, u = at / a.H;
  const float4 x = load4(a.x + at), b = load4(a.b + u / a.C * a.H + k);
  store4(a.x + at, fma4(__fdiv_rn(2.0f, 1.0f + exp32(-a.inj[u])), b, x));
}

__global__ void gr_gate(ops::GrGateArgs a) {
  begin_early();
  const float inv_c = __fdiv_rn(1.0f, static_cast<float>(a.C));
  const int64_t i = thread_index();
  if (i < a.T * a.R) {
    const float lo = silu32(a.lo[i] * inv_c);
    a.lo[i] = lo;
    if (a.out_q.codes != nullptr) quantize32(lo, a.out_q, i / 32);
  }
  if (a.inj != nullptr && i < a.T * a.C) a.inj[i] = a.inj[i] * inv_c;
}

// kStreams: C, or 0 for any; known, the loads come before the sums.
template <int kStreams>
__global__ void gr_mix(ops::GrMixArgs a) {
  begin_early();
  const float inv_c = __fdiv_rn(1.0f, static_cast<float>(a.C));
  const int64_t at = thread_index();
  if (at >= a.T * a.H) return;
  const int64_t t = at / a.H, k = at % a.H;
  const float* up = a.up + t * a.C * a.H + k;
  const float* n = a.n + t * a.C * a.H + k;
  float acc = 0.0f;
#pragma unroll
  for (int64_t c = 0; c < (kStreams > 0 ? kStreams : a.C); ++c) {
    acc = __fmaf_rn(sigmoid32(up[c * a.H]), n[c * a.H], acc);
  }
  const float h = acc * inv_c;
  a.h[at] = h;
  if (a.out_q.codes != nullptr) quantize32(h, a.out_q, at / 32);
}

template <int kStreams>
__global__ void gr_mix_wide(ops::GrMixArgs a) {
  begin_early();
  const float inv_c = __fdiv_rn(1.0f, static_cast<float>(kStreams));
  const int64_t at = thread_index() * 4;
  if (at >= a.T * a.H) return;
  const int64_t t = at / a.H, from = t * kStreams * a.H + at % a.H;
  float4 up[kStreams], n[kStreams], acc{};
#pragma unroll
  for (int c = 0; c < kStreams; ++c) up[c] = load4(a.up + from + c * a.H), n[c] = load4(a.n + from + c * a.H);
#pragma unroll
  for (int c = 0; c < kStreams; ++c) {
    acc.x = __fmaf_rn(sigmoid32(up[c].x), n[c].x, acc.x);
    acc.y = __fmaf_rn(sigmoid32(up[c].y), n[c].y, acc.y);
    acc.z = __fmaf_rn(sigmoid32(up[c].z), n[c].z, acc.z);
    acc.w = __fmaf_rn(sigmoid32(up[c].w), n[c].w, acc.w);
  }
  const float4 h = {acc.x * inv_c, acc.y * inv_c, acc.z * inv_c, acc.w * inv_c};
  store4(a.h + at, h);
  if (a.out_q.codes != nullptr) quantize128(h, a.out_q, (at - 4 * lane_id()) / 32);
}

// kSlots rows at a time are under way. K is at least 1.
template <int kSlots>
__global__ void moe_combine_wide(ops::MoeCombineArgs a) {
  begin_early();
  const int64_t t = blockIdx.x, d = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * 4;
  if (d >= a.H) return;
  const float sg = a.sg[t];
  const float4 shared = load4(a.shared + t * a.H + d);
  float4 s = {sg * shared.x, sg * shared.y, sg * shared.z, sg * shared.w};
  for (int64_t k0 = 0; k0 < a.K; k0 += kSlots) {
    float4 y[kSlots];
    float w[kSlots];
    int64_t row[kSlots];
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      const int64_t at = t * a.K + min(k0 + k, a.K - 1);
      row[k] = k0 + k < a.K ? a.slot[at] : -1;
      w[k] = a.w[at];
    }
    // Of an absent slot row 0 is read and not used: no load waits for a branch.
#pragma unroll
    for (int k = 0; k < kSlots; ++k) y[k] = load4(a.y + max(row[k], int64_t{0}) * a.H + d);
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      const float4 sum = fma4(w[k], y[k], s);
      const bool there = row[k] >= 0;
      s = {there ? sum.x : s.x, there ? sum.y : s.y, there ? sum.z : s.z, there ? sum.w : s.w};
    }
  }
  store4(a.out + t * a.H + d, s);
}

__global__ void moe_combine(ops::MoeCombineArgs a) {
  begin_early();
  const int64_t t = blockIdx.x, d = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (d >= a.H) return;
  float s = a.sg[t] * a.shared[t * a.H + d];
  for (int64_t k = 0; k < a.K; ++k) {
    const int64_t row = a.slot[t * a.K + k];
    if (row >= 0) s = __fmaf_rn(a.w[t * a.K + k], a.y[row * a.H + d], s);
  }
  a.out[t * a.H + d] = s;
}

__global__ void ngram_hash(ops::NgramHashArgs a) {
  begin_early();
  const int64_t t = thread_index();
  if (t >= a.T) return;
  const int32_t* now = a.tokens + t + a.n - 1;
  uint64_t mixed = static_cast<uint64_t>(now[0]) * a.multipliers[0];
  bool cut = false;
  for (int64_t m = 2; m <= a.n; ++m) {
    cut = cut || now[1 - m] == a.eos;
    mixed ^= static_cast<uint64_t>(cut ? a.eos : now[1 - m]) * a.multipliers[m - 1];
    for (int64_t g = (m - 2) * a.G; g < (m - 1) * a.G; ++g) {
      a.rows[t * (a.n - 1) * a.G + g] = static_cast<int32_t>(mixed % a.sizes[g] + a.offsets[g]);
    }
  }
}

__global__ void ngram_conv(ops::NgramConvArgs a) {
  begin_early();
  const int64_t at = thread_index();
  if (at >= a.T * a.channels) return;
  const int64_t t = at / a.channels, i = at % a.channels, columns = (a.taps - 1) * a.n;
  float conv = 0.0f;
  for (int64_t tap = 0; tap < a.taps; ++tap) {
    const int64_t from = t - (a.taps - 1 - tap) * a.n;
    const float x = from >= 0 ? a.nv[from * a.channels + i] : a.window[(from + columns) * a.channels + i];
    const float w = a.conv_w[i * a.taps + tap];
    conv = tap == 0 ? w * x : __fmaf_rn(w, x, conv);
  }
  a.x[at] = a.x[at] + (a.v[at] + silu32(conv));
}

// After ngram_conv: a channel's window moves on; oldest first, so nothing is read after it was replaced.
__global__ void ngram_window(ops::NgramConvArgs a) {
  begin_early();
  const int64_t i = thread_index(), columns = (a.taps - 1) * a.n;
  if (i >= a.channels) return;
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t from = a.T - columns + j;
    a.window[j * a.channels + i] =
        from >= 0 ? a.nv[from * a.channels + i] : a.window[(from + columns) * a.channels + i];
  }
}

struct SmallWrite {
  uint8_t* to;
  int64_t bytes;
  uint8_t data[kSmallWrite];
};
__global__ void write_bytes(SmallWrite w) {
  for (int64_t i = threadIdx.x; i < w.bytes; i += blockDim.x) w.to[i] = w.data[i];
}

template <class Args>
void each(Queue& queue, void (*kernel)(Args), int64_t n, const Args& a) {
  if (n > 0) queue.launch_early(kernel, blocks_for(n, kThreads), kThreads, 0, a);
}

// Whether rows of `width` values in these arrays are for the ..._wide kernels.
template <class... P>
bool wide(int64_t width, const P*... arrays) {
  return width % 128 == 0 && (aligned(arrays) && ...);
}

}  // namespace

int early_code_version() {
  cudaFuncAttributes a{};
  if (cudaFuncGetAttributes(&a, write_bytes) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return a.ptxVersion;
}

void small_write(Queue& q, void* to, const void* from_host, size_t bytes) {
  SmallWrite w{static_cast<uint8_t*>(to), static_cast<int64_t>(bytes), {}};
  std::memcpy(w.data, from_host, bytes);
  q.launch(write_bytes, 1, 128, 0, w);
}

void run(Queue& q, const ops::RopeArgs& a) { each(q, rope, a.rows * a.heads * (a.rot / 2), a); }
void run(Queue& q, const ops::KvStoreArgs& a) { each(q, kv_store, a.rows * a.n, a); }
void run(Queue& q, const ops::SwigluArgs& a) {
  if (wide(a.F, a.g, a.u, a.h, a.out_q.codes)) return each(q, swiglu_wide, a.rows * a.F / 4, a);
  each(q, swiglu, a.rows * a.F, a);
}
void run(Queue& q, const ops::GrGateArgs& a) { each(q, gr_gate, a.T * (a.R > a.C ? a.R : a.C), a); }
void run_general(Queue& q, const ops::GrApplyArgs& a) { each(q, gr_apply, a.T * a.C * a.H, a); }
void run(Queue& q, const ops::GrApplyArgs& a) {
  if (!wide(a.H, a.x, a.b)) return run_general(q, a);
  each(q, gr_apply_wide, a.T * a.C * a.H / 4, a);
}
void run_general(Queue& q, const ops::GrMixArgs& a) {
  each(q, a.C == 4 ? gr_mix<4> : gr_mix<0>, a.T * a.H, a);
}
void run(Queue& q, const ops::GrMixArgs& a) {
  if (a.C != 4 || !wide(a.H, a.up, a.n, a.h, a.out_q.codes)) return run_general(q, a);
  each(q, gr_mix_wide<4>, a.T * a.H / 4, a);
}
void run_general(Queue& q, const ops::MoeCombineArgs& a) {
  if (a.T == 0) return;
  q.launch_early(moe_combine, dim3(static_cast<unsigned>(a.T), blocks_for(a.H, kThreads)), kThreads, 0, a);
}
void run(Queue& q, const ops::MoeCombineArgs& a) {
  if (a.T == 0 || a.K == 0 || !wide(a.H, a.y, a.shared, a.out)) return run_general(q, a);
  constexpr int kWide = 128;
  q.launch_early(moe_combine_wide<10>, dim3(static_cast<unsigned>(a.T), blocks_for(a.H, kWide * 4)), kWide, 0,
                 a);
}
void run(Queue& q, const ops::NgramHashArgs& a) { each(q, ngram_hash, a.T, a); }
void run(Queue& q, const ops::NgramConvArgs& a) {
  each(q, ngram_conv, a.T * a.channels, a);
  each(q, ngram_window, a.channels, a);
}

}  // namespace argon::cuda
