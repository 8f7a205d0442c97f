// The kept tokens of one query by rank (ops/qsa_attention/qsa_attention.h), on the device.
#pragma once

#include "cuda/device.cuh"
#include "ops/qsa_attention/qsa_attention.h"

namespace argon::cuda {

class Queue;
// The kernels of qsa_attention_tiles.cu and qsa_attention_heads.cu; false when they do not take this shape.
bool attention_tiles(Queue& queue, const ops::QsaAttentionArgs& a);
bool attention_heads(Queue& queue, const ops::QsaAttentionArgs& a);

// Tokens that the last query keeps at most.
inline int64_t most_kept(const ops::QsaAttentionArgs& a) {
  const int64_t kept = a.budget * a.r + a.r - 1, visible = a.position0 + a.T;
  return visible < kept || visible / a.r <= a.budget ? visible : kept;
}
constexpr int64_t segments_of(int64_t tokens) {
  return (tokens + ops::kAttentionSegment - 1) / ops::kAttentionSegment;
}

struct Kept {
  const int32_t* blocks;
  int64_t r, in_blocks, tail, size;

  __device__ Kept(const ops::QsaAttentionArgs& a, int64_t t) : r(a.r) {
    const int count = a.count[t];
    const int64_t visible = a.position0 + t + 1;
    const bool all = count == ops::kAllBlocks;
    blocks = all ? nullptr : a.kept + t * a.budget;
    in_blocks = all ? visible : count * r;
    tail = all ? 0 : visible - visible % r - in_blocks;
    size = all ? visible : in_blocks + visible % r;
  }
  __device__ int64_t at(int64_t i) const {
    if (blocks == nullptr) return i;
    return i < in_blocks ? blocks[i / r] * r + i % r : i + tail;
  }
};

// Value i of a head's output before its gate, from the maximum, sum and output of its segments ([n][2 + dh]),
// from the left.
__device__ inline float merge_segments(const float* part, int n, int dh, int i) {
  float m = part[0], l = part[1], o = part[2 + i];
#pragma unroll 4
  for (int s = 1; s < n; ++s) {
    const float* next = part + s * (dh + 2);
    const float mb = next[0], lb = next[1], ob = next[2 + i];
    const float M = fmaxf(m, mb), ca = exp32(m - M), cb = exp32(mb - M);
    m = M;
    l = __fmaf_rn(lb, cb, l * ca);
    o = __fmaf_rn(ob, cb, o * ca);
  }
  return __fdiv_rn(o, l);
}

}  // namespace argon::cuda
