// The kept tokens of one query by rank (ops/qsa_attention/qsa_attention.h), on the device.
#pragma once

#include "cuda/device.cuh"
#include "ops/qsa_attention/qsa_attention.h"

namespace argon::cuda {

class Queue;
// The kernels of qsa_attention_tiles.cu and qsa_attention_heads.cu; false when they do not take this shape.
bool attention_tiles(Queue& queue, const ops::QsaAttentionArgs& a);
bool attention_heads(Queue& queue, const ops::QsaAttentionArgs& a);

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

}  // namespace argon::cuda
