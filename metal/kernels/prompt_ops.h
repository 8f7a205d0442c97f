// The pieces of prompt.metal, shared with the lab's baselines: the MoE combine of one value, the sources of a
// block's output b, and the gated residual's apply and norm. Contracts: ops/moe_combine/moe_combine.h,
// ops/gated_residual/.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/norms.h"
#include "metal/kernels/prompt_args.h"
#include "metal/kernels/sums.h"

constant constexpr uint kPromptThreads = 256;
constant constexpr uint kFastN = 2560;                          // the hidden size of the fast paths
constant constexpr uint kFastValues = kFastN / kPromptThreads;  // values per thread there: d = tid + 256*i
constant constexpr uint kFastC = 4;
constant constexpr uint kMaxSlots = 16;
constant constexpr uint kTooManySlots = 0xffffffffu;

// Where this thread stands.
struct PromptThread {
  uint t, tid, sg, lane;
};

// Simdgroup 0 compacts the slots that hold a row, in rank order: roff[i] = row * n, wk[i] = its weight, the
// count in roff[16]; with more than 16 slots kTooManySlots instead. A threadgroup barrier must follow.
inline void moe_comb_slots(device const int* slot, device const float* w, threadgroup uint* roff,
                           threadgroup float* wk, uint topk, uint n, uint sg, uint lane) {
  if (sg != 0) return;
  if (topk > kMaxSlots) {
    if (lane == 0) roff[kMaxSlots] = kTooManySlots;
    return;
  }
  const int row = lane < topk ? slot[lane] : -1;
  const uint valid = row >= 0 ? 1u : 0u;
  const uint at = metal::simd_prefix_exclusive_sum(valid);
  if (valid != 0) {
    roff[at] = uint(row) * n;
    wk[at] = w[lane];
  }
  if (lane == 31) roff[kMaxSlots] = at + valid;
}

// No block output: norm only.
struct NoBlock {
  float at(uint) const { return 0.0f; }
};

// b as a row in memory.
struct RowBlock {
  device const float* b;
  float at(uint d) const { return b[d]; }
};

// b made on the fly from the experts' rows: s = sg*shared, then fma in rank order.
struct MoeBlock {
  device const float* ye;
  device const float* shared;  // the token's row
  device const int* slot;
  device const float* w;
  threadgroup const uint* roff;
  threadgroup const float* wk;
  float sg;
  uint topk, n;

  float at(uint d) const {
    float s = sg * shared[d];
    const uint count = roff[kMaxSlots];
    if (count != kTooManySlots) {
      for (uint k = 0; k < count; ++k) s = metal::fma(wk[k], ye[roff[k] + d], s);
      return s;
    }
    for (uint k = 0; k < topk; ++k) {
      const int row = slot[k];
      if (row >= 0) s = metal::fma(w[k], ye[uint(row) * n + d], s);
    }
    return s;
  }
};

// The factor of apply: x_c = fma(gate, b, x_c). inj has been multiplied by 1/C.
inline float apply_gate(float inj) { return 2.0f / (1.0f + argon::exp32(-inj)); }

// Where the norm's outputs go; the switches are function constants of the kernels.
struct NormOut {
  device half* h;
  device float* f;
  device float* stream_row;  // one stream of x (after apply) copied out: this token's row
  uint stream;               // which, or ~0u
  bool write_half, write_float;

  void put(uint i, float v) const {
    if (write_half) h[i] = half(v);
    if (write_float) f[i] = v;
  }
};

// n == 2560, C == 4, apply: the outer loop over b stays rolled (ten sums at once would live across the reads
// of the experts' rows); x goes to memory and comes back from the cache.
template <bool Rolled, class Block>
inline void gr_apply_fast(device float* x, device const float* inj, thread const Block& block,
                          thread float* ss, thread const PromptThread& at) {
  float gate[kFastC];
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) gate[c] = apply_gate(inj[at.t * kFastC + c]);
  device float* row = x + at.t * kFastC * kFastN;
  if (Rolled) {
#pragma clang loop unroll(disable)
    for (uint d = at.tid; d < kFastN; d += kPromptThreads) {
      const float b = block.at(d);
#pragma clang loop unroll(full)
      for (uint c = 0; c < kFastC; ++c) {
        const float v = metal::fma(gate[c], b, row[c * kFastN + d]);
        row[c * kFastN + d] = v;
        ss[c] = metal::fma(v, v, ss[c]);
      }
    }
  } else {
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) {
      const uint d = at.tid + kPromptThreads * i;
      const float b = block.at(d);
#pragma clang loop unroll(full)
      for (uint c = 0; c < kFastC; ++c) {
        const float v = metal::fma(gate[c], b, row[c * kFastN + d]);
        row[c * kFastN + d] = v;
        ss[c] = metal::fma(v, v, ss[c]);
      }
    }
  }
}

// The four streams' sums of squares from the threads' own, in the contract's order.
inline void fast_sums(thread float* ss, threadgroup float* part, thread const PromptThread& at) {
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) {
    const float w = fold32(ss[c]);
    if (at.lane == 0) part[8 * c + at.sg] = w;
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) ss[c] = sum8(part + 8 * c);
}

// n == 2560, C == 4, after an apply: norm of x as it now stands in memory.
inline void gr_norm_fast_after(device const float* x, device const float* w, thread float* ss,
                               threadgroup float* part, thread const NormOut& out, float eps,
                               thread const PromptThread& at) {
  fast_sums(ss, part, at);
  const uint base = at.t * kFastC * kFastN + at.tid;
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) {
    const float r = norm_factor(ss[c], kFastN, eps);
    device const float* row = x + base + c * kFastN;
    device const float* weight = w + c * kFastN + at.tid;
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) {
      const float v = row[kPromptThreads * i];
      if (out.stream == c) out.stream_row[at.tid + kPromptThreads * i] = v;
      out.put(base + c * kFastN + kPromptThreads * i, (v * r) * weight[kPromptThreads * i]);
    }
  }
}

// n == 2560, C == 4, norm with everything in registers: ten values of each stream per thread, read once.
template <bool Apply>
inline void gr_norm_fast(device float* x, device const float* w, device const float* inj,
                         device const float* b, threadgroup float* part, thread const NormOut& out, float eps,
                         thread const PromptThread& at) {
  float v[kFastC][kFastValues];
  float bv[kFastValues];
  float ss[kFastC];
  const uint base = at.t * kFastC * kFastN + at.tid;
  if (Apply) {
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) bv[i] = b[at.tid + kPromptThreads * i];
  }
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) {
    device float* row = x + base + c * kFastN;
    const float gate = Apply ? apply_gate(inj[at.t * kFastC + c]) : 0.0f;
    ss[c] = 0.0f;
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) {
      v[c][i] = row[kPromptThreads * i];
      if (Apply) {
        v[c][i] = metal::fma(gate, bv[i], v[c][i]);
        row[kPromptThreads * i] = v[c][i];
      }
      ss[c] = metal::fma(v[c][i], v[c][i], ss[c]);
    }
  }
  fast_sums(ss, part, at);
#pragma clang loop unroll(full)
  for (uint c = 0; c < kFastC; ++c) {
    const float r = norm_factor(ss[c], kFastN, eps);
    device const float* weight = w + c * kFastN + at.tid;
#pragma clang loop unroll(full)
    for (uint i = 0; i < kFastValues; ++i) {
      if (out.stream == c) out.stream_row[at.tid + kPromptThreads * i] = v[c][i];
      out.put(base + c * kFastN + kPromptThreads * i, (v[c][i] * r) * weight[kPromptThreads * i]);
    }
  }
}

// Any n and C. From 512 values on the threadgroup takes four streams at a time (so b is made once for C <=
// 4); below, a simdgroup takes a stream, as the contract's sum32 wants, and no barrier is needed.
template <bool Apply, bool Norm, class Block>
inline void gr_general(device float* x, device const float* w, device const float* inj,
                       thread const Block& block, threadgroup float* part, thread const NormOut& out,
                       constant PromptMetalArgs& s, thread const PromptThread& at) {
  const uint n = s.n, C = s.C;
  if (n < 512) {
    for (uint c = at.sg; c < C; c += kPromptThreads / 32) {
      const uint base = (at.t * C + c) * n;
      const float gate = Apply ? apply_gate(inj[at.t * C + c]) : 0.0f;
      float ss = 0.0f;
      for (uint d = at.lane; d < n; d += 32) {
        float v = x[base + d];
        if (Apply) {
          v = metal::fma(gate, block.at(d), v);
          x[base + d] = v;
        }
        ss = metal::fma(v, v, ss);
      }
      if (!Norm) continue;
      const float r = norm_factor(fold32(ss), n, s.eps);
      for (uint d = at.lane; d < n; d += 32) {
        const float v = x[base + d];
        if (out.stream == c) out.stream_row[d] = v;
        out.put(base + d, (v * r) * w[c * n + d]);
      }
    }
    return;
  }
  for (uint first = 0; first < C; first += 4) {
    const uint streams = metal::min(4u, C - first);
    float gate[4], ss[4];
    for (uint c = 0; c < 4; ++c) {
      gate[c] = Apply && c < streams ? apply_gate(inj[at.t * C + first + c]) : 0.0f;
      ss[c] = 0.0f;
    }
    const uint base = (at.t * C + first) * n;
    for (uint d = at.tid; d < n; d += kPromptThreads) {
      const float b = block.at(d);
#pragma clang loop unroll(full)
      for (uint c = 0; c < 4; ++c) {
        if (c >= streams) continue;
        float v = x[base + c * n + d];
        if (Apply) {
          v = metal::fma(gate[c], b, v);
          x[base + c * n + d] = v;
        }
        ss[c] = metal::fma(v, v, ss[c]);
      }
    }
    if (!Norm) continue;
    if (first > 0) metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);  // all have read part
    fast_sums(ss, part, at);
#pragma clang loop unroll(full)
    for (uint c = 0; c < 4; ++c) {
      if (c >= streams) continue;
      const float r = norm_factor(ss[c], n, s.eps);
      for (uint d = at.tid; d < n; d += kPromptThreads) {
        const float v = x[base + c * n + d];
        if (out.stream == first + c) out.stream_row[d] = v;
        out.put(base + c * n + d, (v * r) * w[(first + c) * n + d]);
      }
    }
  }
}
