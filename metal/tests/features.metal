// What the executor's metal_stdlib offers, each entry checked against plain arithmetic in executor_test.cpp.
#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;

constant bool flag [[function_constant(0)]];
constant uint number [[function_constant(1)]];
constant float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};

struct Sizes {
  uint rows;
  float scale;
};

// 64 threads: one value per line of y and thread.
kernel void vectors(device const float4* x [[buffer(0)]], device float* y [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  const float4 v = x[i];
  const float4 w = float4(v.yx, 3.0f, v.w);
  const int4 n = int4(v);
  const float2 splat = float2(2.0f);
  float4 sum = v + w;
  sum.xz = splat;
  const uchar4 bytes = as_type<uchar4>(0x04030201u);
  y[8 * i] = sum.x + sum.y;
  y[8 * i + 1] = w.z;
  y[8 * i + 2] = float(n.w);
  y[8 * i + 3] = float(half(v.x));
  y[8 * i + 4] = float(bytes.z);
  y[8 * i + 5] = fma(v, v, w).y;
  y[8 * i + 6] = table[i & 3];
  y[8 * i + 7] = clamp(v.x, 0.25f, 0.5f);
}

kernel void lanes(device const float* x [[buffer(0)]], device uint* y [[buffer(1)]],
                  uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const bool odd = (lane & 1) != 0;
  const uint v = uint(x[i] * 64.0f);
  y[8 * i] = simd_prefix_exclusive_sum(v);
  y[8 * i + 1] = simd_prefix_inclusive_sum(v);
  y[8 * i + 2] = simd_sum(v);
  y[8 * i + 3] = uint((ulong)simd_ballot(odd));
  y[8 * i + 4] = simd_max(v);
  y[8 * i + 5] = simd_shuffle_down(v, 3);
  y[8 * i + 6] = simd_shuffle_up(v, 2) + simd_broadcast(v, 5) + simd_broadcast_first(v);
  y[8 * i + 7] = uint(simd_any(lane == 7)) + 2 * uint(simd_all(lane < 32)) + 4 * uint(simd_all(odd));
}

kernel void atomics(device const float* x [[buffer(0)]], device atomic_uint* y [[buffer(1)]],
                    uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint count;
  if (tid == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&count, uint(x[i] * 64.0f), memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) atomic_fetch_add_explicit(&y[0], atomic_load_explicit(&count, memory_order_relaxed), memory_order_relaxed);
  atomic_fetch_add_explicit(&y[1], 1u, memory_order_relaxed);
}

template <typename T, uint N>
kernel void shared_sum(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], constant Sizes& s [[buffer(2)]],
                       threadgroup T* scratch [[threadgroup(0)]], uint i [[thread_position_in_grid]],
                       ushort3 p [[thread_position_in_threadgroup]], uint2 g [[threadgroup_position_in_grid]]) {
  scratch[p.x] = x[i] * T(s.scale);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  T sum = T(0);
  for (uint k = 0; k < N; ++k) sum = sum + scratch[(p.x + k) % 64];
  y[i] = flag ? sum : T(g.x + s.rows + number);
}
template [[host_name("shared_sum_f")]] [[kernel]] decltype(shared_sum<float, 3>) shared_sum<float, 3>;
template [[host_name("shared_sum_u")]] [[kernel]] decltype(shared_sum<uint, 5>) shared_sum<uint, 5>;

// Two simdgroups exchange within themselves only: a simdgroup barrier is enough.
kernel void simd_exchange(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                          uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float part[64];
  for (uint round = 0; round < 3; ++round) {
    part[tid] = x[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = part[tid ^ 1];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}
