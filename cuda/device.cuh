// What the kernels share: the contract's sums over a warp or a block, exact division and root, unpacking of
// any weight type. Compile with --fmad=false --ftz=true --prec-div=true --prec-sqrt=true
// (cmake/ArgonCuda.cmake).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "base/exact_math.h"
#include "base/half.h"
#include "ops/matmul/matmul.h"

namespace argon::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x) / 32; }

// Programmatic launches (Queue::launch_early). start_dependents(): once every block has come here, the next
// kernel's blocks may take what room is left. wait_for_earlier(): all earlier kernels are done and their
// writes are seen. Every block of an early kernel waits, even one with nothing to do, or the kernel after it
// could overtake.
__device__ inline void start_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// For kernels that have nothing to do before the wait.
__device__ inline void begin_early() {
  start_dependents();
  wait_for_earlier();
}

// fold32 (NUMERICS.md): by xor shuffles every lane gets the value that lane 0 has in the contract, since a+b
// and b+a are the same bits.
__device__ inline float fold32(float v) {
#pragma unroll
  for (int s = 16; s >= 1; s /= 2) v = v + __shfl_xor_sync(kAllLanes, v, s);
  return v;
}

__device__ inline float fold8(const float* w) {
  return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}

// Sum of term(acc, i) = fma of two values at i, i < n, by one warp: sum256 from 512 on, else sum32. Every
// lane gets it. Index i is only touched by lane i % 32.
template <class Term>
__device__ inline float warp_sum(int64_t n, Term term) {
  if (n < 512) {
    float acc = 0.0f;
    for (int64_t i = lane_id(); i < n; i += 32) acc = term(acc, i);
    return fold32(acc);
  }
  float w[8];
#pragma unroll
  for (int g = 0; g < 8; ++g) {
    float acc = 0.0f;
    for (int64_t i = 32 * g + lane_id(); i < n; i += 256) acc = term(acc, i);
    w[g] = fold32(acc);
  }
  return fold8(w);
}

__device__ inline float warp_dot(const float* a, const float* b, int64_t n) {
  return warp_sum(n, [&](float acc, int64_t i) { return __fmaf_rn(a[i], b[i], acc); });
}

// fold of a sum256 whose lane values the 256 threads of a block hold; every thread gets the total. `shared`
// is 8 floats; the caller synchronises before it is used again.
__device__ inline float block_fold256(float acc, float* shared) {
  acc = fold32(acc);
  if (lane_id() == 0) shared[warp_id()] = acc;
  __syncthreads();
  return fold8(shared);
}

__device__ inline float inverse_rms(float ss, int64_t n, float eps) {
  return __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(ss, static_cast<float>(n)) + eps));
}

// f32 quotient 1/sqrt(n), the root rounded first.
__device__ inline float inverse_root(int64_t n) { return __fdiv_rn(1.0f, __fsqrt_rn(static_cast<float>(n))); }

// Reads an element of a cache of either type.
__device__ inline float load_kv(const void* p, bool f16, int64_t i) {
  return f16 ? __half2float(static_cast<const __half*>(p)[i]) : static_cast<const float*>(p)[i];
}

// A warp quantises block b of q, whose 32 values its lanes hold (QuantizeArgs, ops/matmul/matmul.h).
__device__ inline void quantize32(float x, const ops::QuantizedRows& q, int64_t b) {
  const uint32_t bits = __reduce_max_sync(kAllLanes, __float_as_uint(x) & 0x7fffffffu);
  const float max = __uint_as_float(bits);
  const bool zero = max < 0x1p-100f, finite = bits < 0x7f800000u;
  const float up = zero ? 0.0f : __fdiv_rn(127.0f, max);
  const int code = finite ? __float2int_rn(x * up) : 0, lane = lane_id();
  q.codes[b * 32 + lane] = static_cast<int8_t>(code);
  // Both halves' sums in one word: each is within 16 bits.
  const int both = __reduce_add_sync(kAllLanes, lane < 16 ? code : code * 65536);
  const int low = static_cast<int16_t>(both);
  if (lane == 0) q.d[b] = zero ? 0.0f : __fdiv_rn(max, 127.0f);
  if (lane % 16 == 0) q.sums[b * 2 + lane / 16] = static_cast<int16_t>(lane == 0 ? low : (both - low) >> 16);
}

// The same for N blocks b0, b0 + step, ... at once: the quotients of all of them are computed by different
// lanes.
template <int N>
__device__ inline void quantize32_each(const float (&x)[N], const ops::QuantizedRows& q, int64_t b0,
                                       int64_t step) {
  static_assert(N <= 32);
  const int lane = lane_id();
  uint32_t own_bits = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const uint32_t bits = __reduce_max_sync(kAllLanes, __float_as_uint(x[i]) & 0x7fffffffu);
    if (lane == i) own_bits = bits;
  }
  const float max = __uint_as_float(own_bits);
  const bool zero = max < 0x1p-100f;
  const float own_up = zero ? 0.0f : __fdiv_rn(127.0f, max);
  if (lane < N) q.d[b0 + lane * step] = zero ? 0.0f : __fdiv_rn(max, 127.0f);
  const bool own_finite = own_bits < 0x7f800000u;
  const unsigned finite = __ballot_sync(kAllLanes, own_finite);
  int own_sums = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float up = __shfl_sync(kAllLanes, own_up, i);
    const int code = finite >> i & 1 ? __float2int_rn(x[i] * up) : 0;
    q.codes[(b0 + i * step) * 32 + lane] = static_cast<int8_t>(code);
    const int both = __reduce_add_sync(kAllLanes, lane < 16 ? code : code * 65536);
    if (lane == i) own_sums = both;
  }
  const int low = static_cast<int16_t>(own_sums);
  if (lane < N) {
    // Two 16-bit sums of one block, low half first.
    const uint32_t word = static_cast<uint32_t>(low & 0xffff) | static_cast<uint32_t>((own_sums - low) >> 16)
                                                                    << 16;
    reinterpret_cast<uint32_t*>(q.sums)[b0 + lane * step] = word;
  }
}

// The same for four blocks b0 .. b0 + 3 whose values lie four to a lane, in order: eight lanes to a block.
__device__ inline void quantize128(const float4& x, const ops::QuantizedRows& q, int64_t b0) {
  const int lane = lane_id();
  const float v[4] = {x.x, x.y, x.z, x.w};
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bits = max(bits, __float_as_uint(v[i]) & 0x7fffffffu);
#pragma unroll
  for (int s = 1; s <= 4; s *= 2) bits = max(bits, __shfl_xor_sync(kAllLanes, bits, s));
  const float most = __uint_as_float(bits);
  const bool zero = most < 0x1p-100f, finite = bits < 0x7f800000u;
  const float up = zero ? 0.0f : __fdiv_rn(127.0f, most);
  int sum = 0;
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int code = finite ? __float2int_rn(v[i] * up) : 0;
    sum += code;
    word |= static_cast<uint32_t>(code & 0xff) << 8 * i;
  }
  reinterpret_cast<uint32_t*>(q.codes)[b0 * 8 + lane] = word;
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);
  if (lane % 4 == 0) q.sums[b0 * 2 + lane / 4] = static_cast<int16_t>(sum);
  if (lane % 8 == 0) q.d[b0 + lane / 8] = zero ? 0.0f : __fdiv_rn(most, 127.0f);
}

__host__ inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
__device__ inline float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline void store4(float* p, const float4& v) { *reinterpret_cast<float4*>(p) = v; }
__device__ inline float4 fma4(float a, const float4& b, const float4& c) {
  return {__fmaf_rn(a, b.x, c.x), __fmaf_rn(a, b.y, c.y), __fmaf_rn(a, b.z, c.z), __fmaf_rn(a, b.w, c.w)};
}

// A float whose order as an unsigned integer is the order of the numbers; -0 counts as +0, subnormals as 0.
__device__ inline uint32_t order_key(float x) {
  const uint32_t u = __float_as_uint(x + 0.0f);  // flushes, and -0 + 0 = +0
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

}  // namespace argon::cuda
