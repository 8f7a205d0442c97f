// The gated residual round a block and the MoE combine, for prompts: one threadgroup of 256 threads per token. Contracts in
// ops/gated_residual/gated_residual.h and ops/moe_combine/moe_combine.h; x, n [T][C][n], b and shared [T][n], inj [T][C]
// (already multiplied by 1/C), slot and w [T][topk] (slot -1: absent), sg [T], ye [rows][n].
//   moe_comb               the combine alone
//   gr_norm_h4             x += gate*b (apply), then the norm; apply off: the norm alone, on its own path
//   gr_norm_h_moec         the same with b combined on the fly: the MoE output never goes to memory
//   gr_apply_moec          the apply alone, b combined on the fly
//   gr_norm_h_stream_out   gr_norm_h4 which also copies one stream of x, after the apply, to rows of its own
// n == 2560 with C == 4 takes the fast paths, everything else the general one. Offsets are 32-bit: T*C*n and rows*n stay below 2^32.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/prompt_ops.h"

using namespace metal;

constant bool apply [[function_constant(0)]];
constant bool write_half [[function_constant(1)]];
constant bool write_float [[function_constant(2)]];

kernel void moe_comb(device const float* ye [[buffer(0)]],
                     device const int* slot [[buffer(1)]],
                     device const float* w [[buffer(2)]],
                     device const float* shared [[buffer(3)]],
                     device const float* sg_value [[buffer(4)]],
                     device float* out [[buffer(5)]],
                     constant PromptMetalArgs& s [[buffer(6)]],
                     uint t [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint roff[kMaxSlots + 1];
  threadgroup float wk[kMaxSlots];
  const uint n = s.n;
  moe_comb_slots(slot + t * s.topk, w + t * s.topk, roff, wk, s.topk, n, sg, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const MoeBlock block = {ye, shared + t * n, slot + t * s.topk, w + t * s.topk, roff, wk, sg_value[t], s.topk, n};
  for (uint d = tid; d < n; d += kPromptThreads) out[t * n + d] = block.at(d);
}

kernel void gr_norm_h4(device float* x [[buffer(0)]],
                       device const float* w_norm [[buffer(1)]],
                       device const float* b [[buffer(2), function_constant(apply)]],
                       device const float* inj [[buffer(3), function_constant(apply)]],
                       device half* nh [[buffer(4), function_constant(write_half)]],
                       device float* nf [[buffer(5), function_constant(write_float)]],
                       constant PromptMetalArgs& s [[buffer(6)]],
                       uint t [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]],
                       uint sg [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[32];
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  if (s.n == kFastN && s.C == kFastC) {
    if (apply) {
      gr_norm_fast<true>(x, w_norm, inj, b + t * kFastN, part, out, s.eps, at);
    } else {
      gr_norm_fast<false>(x, w_norm, inj, b, part, out, s.eps, at);
    }
  } else if (apply) {
    const RowBlock block = {b + t * s.n};
    gr_general<true, true>(x, w_norm, inj, block, part, out, s, at);
  } else {
    const NoBlock none = {};
    gr_general<false, true>(x, w_norm, inj, none, part, out, s, at);
  }
}

kernel void gr_norm_h_moec(device float* x [[buffer(0)]],
                           device const float* w_norm [[buffer(1)]],
                           device const float* inj [[buffer(2)]],
                           device const float* ye [[buffer(3)]],
                           device const int* slot [[buffer(4)]],
                           device const float* w [[buffer(5)]],
                           device const float* shared [[buffer(6)]],
                           device const float* sg_value [[buffer(7)]],
                           device half* nh [[buffer(8), function_constant(write_half)]],
                           device float* nf [[buffer(9), function_constant(write_float)]],
                           constant PromptMetalArgs& s [[buffer(10)]],
                           uint t [[threadgroup_position_in_grid]],
                           uint tid [[thread_index_in_threadgroup]],
                           uint sg [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[32];
  threadgroup uint roff[kMaxSlots + 1];
  threadgroup float wk[kMaxSlots];
  const uint n = s.n;
  moe_comb_slots(slot + t * s.topk, w + t * s.topk, roff, wk, s.topk, n, sg, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const MoeBlock block = {ye, shared + t * n, slot + t * s.topk, w + t * s.topk, roff, wk, sg_value[t], s.topk, n};
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  if (n == kFastN && s.C == kFastC) {
    float ss[kFastC] = {0.0f, 0.0f, 0.0f, 0.0f};
    gr_apply_fast<true>(x, inj, block, ss, at);
    gr_norm_fast_after(x, w_norm, ss, part, out, s.eps, at);
  } else {
    gr_general<true, true>(x, w_norm, inj, block, part, out, s, at);
  }
}

kernel void gr_apply_moec(device float* x [[buffer(0)]],
                          device const float* inj [[buffer(1)]],
                          device const float* ye [[buffer(2)]],
                          device const int* slot [[buffer(3)]],
                          device const float* w [[buffer(4)]],
                          device const float* shared [[buffer(5)]],
                          device const float* sg_value [[buffer(6)]],
                          constant PromptMetalArgs& s [[buffer(7)]],
                          uint t [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]],
                          uint sg [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint roff[kMaxSlots + 1];
  threadgroup float wk[kMaxSlots];
  const uint n = s.n;
  moe_comb_slots(slot + t * s.topk, w + t * s.topk, roff, wk, s.topk, n, sg, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const MoeBlock block = {ye, shared + t * n, slot + t * s.topk, w + t * s.topk, roff, wk, sg_value[t], s.topk, n};
  const PromptThread at = {t, tid, sg, lane};
  if (n == kFastN && s.C == kFastC) {
    float ss[kFastC] = {0.0f, 0.0f, 0.0f, 0.0f};
    gr_apply_fast<true>(x, inj, block, ss, at);
  } else {
    const NormOut none = {nullptr, nullptr, nullptr, ~0u, false, false};
    gr_general<true, false>(x, inj, inj, block, wk, none, s, at);
  }
}

kernel void gr_norm_h_stream_out(device float* x [[buffer(0)]],
                                 device const float* w_norm [[buffer(1)]],
                                 device const float* b [[buffer(2), function_constant(apply)]],
                                 device const float* inj [[buffer(3), function_constant(apply)]],
                                 device half* nh [[buffer(4), function_constant(write_half)]],
                                 device float* nf [[buffer(5), function_constant(write_float)]],
                                 device float* stream_out [[buffer(6)]],
                                 constant PromptMetalArgs& s [[buffer(7)]],
                                 uint t [[threadgroup_position_in_grid]],
                                 uint tid [[thread_index_in_threadgroup]],
                                 uint sg [[simdgroup_index_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[32];
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, stream_out + t * s.n, s.stream, write_half, write_float};
  if (s.n == kFastN && s.C == kFastC) {
    if (apply) {
      gr_norm_fast<true>(x, w_norm, inj, b + t * kFastN, part, out, s.eps, at);
    } else {
      gr_norm_fast<false>(x, w_norm, inj, b, part, out, s.eps, at);
    }
  } else if (apply) {
    const RowBlock block = {b + t * s.n};
    gr_general<true, true>(x, w_norm, inj, block, part, out, s, at);
  } else {
    const NoBlock none = {};
    gr_general<false, true>(x, w_norm, inj, none, part, out, s, at);
  }
}
