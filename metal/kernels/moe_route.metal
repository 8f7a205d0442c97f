// Routing and grouping; contracts in ops/moe_route/moe_route.h.
//   moe_route   one simdgroup per token; the logits not yet taken wait in threadgroup memory
//   moe_group   one simdgroup per expert (and one for the end): it counts the slots of lower experts and places its own in
//               order, so no sort and no atomics are needed
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/moe_route_args.h"

using namespace metal;

// A logit's place in the order: larger first, equal ones (zeros of both signs too) by the lower index. Every number comes
// before what has been taken (0).
inline uint order_of(float v) {
  const uint u = as_type<uint>(v == 0.0f ? 0.0f : v);
  return (u & 0x80000000u) != 0 ? max(~u, 1u) : u | 0x80000000u;
}

kernel void moe_route(device const float* logits [[buffer(0)]],
                      device const float* shared [[buffer(1)]],
                      device int* ids [[buffer(2)]],
                      device float* w [[buffer(3)]],
                      device float* sg_value [[buffer(4)]],
                      constant MoeRouteMetalArgs& s [[buffer(5)]],
                      threadgroup uint* waiting [[threadgroup(0)]],
                      uint t [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
  device const float* l = logits + t * s.E;
  device int* id = ids + t * s.K;
  device float* weight = w + t * s.K;
  // Each lane keeps to its own elements: e % 32 == lane.
  for (uint e = lane; e < s.E; e += 32) waiting[e] = order_of(l[e]);
  float largest = 0.0f, sum = 0.0f;
  for (uint k = 0; k < s.K; ++k) {
    uint best = 0, at = 0xffffffffu;
    for (uint e = lane; e < s.E; e += 32) {
      const uint v = waiting[e];
      if (v > best) {
        best = v;
        at = e;
      }
    }
    const uint top = simd_max(best);
    at = simd_min(best == top ? at : 0xffffffffu);
    if (at % 32 == lane) waiting[at] = 0;
    const float v = l[at];
    if (k == 0) largest = v;
    const float e = argon::exp32(v - largest);
    sum = k == 0 ? e : sum + e;
    if (lane == 0) {
      id[k] = int(at);
      weight[k] = e;
    }
  }
  if (lane != 0) return;
  for (uint k = 0; k < s.K; ++k) weight[k] = weight[k] / sum;
  sg_value[t] = argon::sigmoid32(shared[t]);
}

kernel void moe_group(device const int* ids [[buffer(0)]],
                      device int* expert_begin [[buffer(1)]],
                      device int* slot_row [[buffer(2)]],
                      device int* slot [[buffer(3)]],
                      constant MoeRouteMetalArgs& s [[buffer(4)]],
                      uint tg [[threadgroup_position_in_grid]],
                      uint sg [[simdgroup_index_in_threadgroup]],
                      uint simdgroups [[simdgroups_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
  const uint expert = tg * simdgroups + sg;
  if (expert > s.E) return;
  const uint slots = s.T * s.K;
  uint below = 0;
  for (uint i = lane; i < slots; i += 32) below += uint(ids[i]) < expert ? 1u : 0u;
  uint next = simd_sum(below);
  if (lane == 0) expert_begin[expert] = int(next);
  if (expert == s.E) return;
  for (uint first = 0; first < slots; first += 32) {
    const uint i = first + lane;
    const bool mine = i < slots && uint(ids[min(i, slots - 1)]) == expert;
    const uint before = simd_prefix_exclusive_sum(mine ? 1u : 0u);
    if (mine) {
      slot[i] = int(next + before);
      slot_row[next + before] = int(i / s.K);
    }
    next += simd_broadcast(before + (mine ? 1u : 0u), 31);
  }
}
