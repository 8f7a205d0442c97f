// Baselines and slower forms of metal/kernels/prompt.metal, kept for A/B runs (comb_fold_parity grvec). n is 2560, C is 4.
//   moe_comb_base            tests every slot and forms the row's offset as a 64-bit product, both for each value
//   gr_norm_h4_base          one path for apply and norm only: a zeroed bv[10], the gates computed and `if (apply)` inside the loop
//   gr_norm_h_moec_base      norm with b from the baseline combine;    gr_apply_moec_base   the apply alone
//   gr_norm_h_moec_swapped   slower: k outside, ten values of d inside   (+1.5 to +3.1 % with the next at T = 1024, 2048 on an M5:
//   gr_norm_h_moec_unrolled  slower: the loop over d unrolled             ten accumulators stay live across the reads of the rows)
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/prompt_ops.h"

using namespace metal;

constant bool apply [[function_constant(0)]];
constant bool write_half [[function_constant(1)]];
constant bool write_float [[function_constant(2)]];

struct BaseMoeBlock {
  device const float* ye;
  device const float* shared;
  device const int* slot;
  device const float* w;
  float sg;
  uint topk, n;

  float at(uint d) const {
    float s = sg * shared[d];
    for (uint k = 0; k < topk; ++k) {
      if (slot[k] >= 0) s = metal::fma(w[k], ye[ulong(slot[k]) * ulong(n) + ulong(d)], s);
    }
    return s;
  }
};

// One path: with apply off b is ten zeros and the gates are computed for nothing.
inline void base_apply_norm(device float* x, device const float* w_norm, device const float* inj, thread const float* bv,
                            bool with_apply, bool norm, threadgroup float* part, thread const NormOut& out, constant PromptMetalArgs& s,
                            thread const PromptThread& at) {
  const uint n = s.n;
  for (uint c = 0; c < s.C; ++c) {
    const uint base = (at.t * s.C + c) * n;
    float ss = 0.0f;
    for (uint i = 0; i < kFastValues; ++i) {
      const uint d = at.tid + kPromptThreads * i;
      float v = x[base + d];
      if (with_apply) {
        v = fma(apply_gate(inj[at.t * s.C + c]), bv[i], v);
        x[base + d] = v;
      }
      ss = fma(v, v, ss);
    }
    if (!norm) continue;
    const float total = fold32(ss);
    threadgroup float* mine = part + 8 * (c & 3);
    if (at.lane == 0) mine[at.sg] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float r = norm_factor(sum8(mine), n, s.eps);
    for (uint i = 0; i < kFastValues; ++i) {
      const uint d = at.tid + kPromptThreads * i;
      out.put(base + d, (x[base + d] * r) * w_norm[c * n + d]);
    }
  }
}

kernel void moe_comb_base(device const float* ye [[buffer(0)]],
                          device const int* slot [[buffer(1)]],
                          device const float* w [[buffer(2)]],
                          device const float* shared [[buffer(3)]],
                          device const float* sg_value [[buffer(4)]],
                          device float* out [[buffer(5)]],
                          constant PromptMetalArgs& s [[buffer(6)]],
                          uint t [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]]) {
  const BaseMoeBlock block = {ye, shared + t * s.n, slot + t * s.topk, w + t * s.topk, sg_value[t], s.topk, s.n};
  for (uint d = tid; d < s.n; d += kPromptThreads) out[t * s.n + d] = block.at(d);
}

kernel void gr_norm_h4_base(device float* x [[buffer(0)]],
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
  float bv[kFastValues];
  for (uint i = 0; i < kFastValues; ++i) bv[i] = 0.0f;
  if (apply) {
    for (uint i = 0; i < kFastValues; ++i) bv[i] = b[t * s.n + tid + kPromptThreads * i];
  }
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  base_apply_norm(x, w_norm, inj, bv, apply, true, part, out, s, at);
}

kernel void gr_norm_h_moec_base(device float* x [[buffer(0)]],
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
  const BaseMoeBlock block = {ye, shared + t * s.n, slot + t * s.topk, w + t * s.topk, sg_value[t], s.topk, s.n};
  float bv[kFastValues];
  for (uint i = 0; i < kFastValues; ++i) bv[i] = block.at(tid + kPromptThreads * i);
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  base_apply_norm(x, w_norm, inj, bv, true, true, part, out, s, at);
}

kernel void gr_apply_moec_base(device float* x [[buffer(0)]],
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
  threadgroup float part[32];
  const BaseMoeBlock block = {ye, shared + t * s.n, slot + t * s.topk, w + t * s.topk, sg_value[t], s.topk, s.n};
  float bv[kFastValues];
  for (uint i = 0; i < kFastValues; ++i) bv[i] = block.at(tid + kPromptThreads * i);
  const PromptThread at = {t, tid, sg, lane};
  const NormOut none = {nullptr, nullptr, nullptr, ~0u, false, false};
  base_apply_norm(x, inj, inj, bv, true, false, part, none, s, at);
}

kernel void gr_norm_h_moec_swapped(device float* x [[buffer(0)]],
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
  moe_comb_slots(slot + t * s.topk, w + t * s.topk, roff, wk, s.topk, s.n, sg, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float bv[kFastValues];
#pragma clang loop unroll(full)
  for (uint i = 0; i < kFastValues; ++i) bv[i] = sg_value[t] * shared[t * s.n + tid + kPromptThreads * i];
  const uint count = roff[kMaxSlots];
  for (uint k = 0; k < count; ++k) {
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) bv[i] = fma(wk[k], ye[roff[k] + tid + kPromptThreads * i], bv[i]);
  }
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  base_apply_norm(x, w_norm, inj, bv, true, true, part, out, s, at);
}

kernel void gr_norm_h_moec_unrolled(device float* x [[buffer(0)]],
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
  moe_comb_slots(slot + t * s.topk, w + t * s.topk, roff, wk, s.topk, s.n, sg, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const MoeBlock block = {ye, shared + t * s.n, slot + t * s.topk, w + t * s.topk, roff, wk, sg_value[t], s.topk, s.n};
  const PromptThread at = {t, tid, sg, lane};
  const NormOut out = {nh, nf, nf, ~0u, write_half, write_float};
  float ss[kFastC] = {0.0f, 0.0f, 0.0f, 0.0f};
  gr_apply_fast<false>(x, inj, block, ss, at);
  gr_norm_fast_after(x, w_norm, ss, part, out, s.eps, at);
}
