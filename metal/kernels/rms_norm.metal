// Norms of rows; contract in ops/rms_norm/rms_norm.h.
//   rms_norm_small   n < 512: a simdgroup takes a row
//   rms_norm         n >= 512: a threadgroup of 256 takes a row
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/norms.h"
#include "metal/kernels/rms_norm_args.h"

using namespace metal;

kernel void rms_norm_small(device const float* x [[buffer(0)]],
                           device const float* w [[buffer(1)]],
                           device float* y [[buffer(2)]],
                           constant RmsNormMetalArgs& s [[buffer(3)]],
                           uint tg [[threadgroup_position_in_grid]],
                           uint sg [[simdgroup_index_in_threadgroup]],
                           uint simdgroups [[simdgroups_per_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const uint row = tg * simdgroups + sg;
  if (row >= s.rows) return;
  device const float* from = x + row / s.group * s.x_stride + row % s.group * s.x_inner;
  device float* to = y + row / s.group * s.y_stride + row % s.group * s.y_inner;
  const float r = norm_factor(simd_dot(from, from, s.n, lane), s.n, s.eps);
  for (uint i = lane; i < s.n; i += 32) to[i] = (from[i] * r) * w[i];
}

kernel void rms_norm(device const float* x [[buffer(0)]],
                     device const float* w [[buffer(1)]],
                     device float* y [[buffer(2)]],
                     constant RmsNormMetalArgs& s [[buffer(3)]],
                     uint row [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[8];
  device const float* from = x + row / s.group * s.x_stride + row % s.group * s.x_inner;
  device float* to = y + row / s.group * s.y_stride + row % s.group * s.y_inner;
  float acc = 0.0f;
  for (uint i = tid; i < s.n; i += 256) acc = fma(from[i], from[i], acc);
  const float r = norm_factor(group_sum(acc, part, 8, sg, lane), s.n, s.eps);
  for (uint i = tid; i < s.n; i += 256) to[i] = (from[i] * r) * w[i];
}
