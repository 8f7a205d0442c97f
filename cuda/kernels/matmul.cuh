// What the matrix product kernels share: their parameters (dense and grouped in one struct) and the ends of
// the contract's sums.
#pragma once

#include "cuda/device.cuh"
#include "cuda/queue.h"
#include "cuda/weights.h"

namespace argon::cuda {

// Dense: T rows of x. Grouped (expert_begin given): T slots.
struct MatmulParams {
  WeightView w;
  const float* x;
  ops::QuantizedRows q;
  float* y;
  int64_t T, ldy;
  const int32_t* expert_begin;
  const int32_t* slot_row;
  int64_t experts;
};

// The kernels; each says which types and sizes it takes and returns false for others.
void matmul_general(Queue&, const MatmulParams&);
bool matmul_step(Queue&, const MatmulParams&);
// `count` products of one input: dense with T = 1, or grouped, whose slots are few.
bool matmul_row(Queue&, const MatmulParams* products, int count);
// A grouped product of slots' rows and a dense one of one row, whose inputs are silu(g)*u.
bool matmul_gated(Queue&, const MatmulParams (&a)[2], const float* const (&g)[2], const float* const (&u)[2]);
bool matmul_prompt(Queue&, const MatmulParams&);
bool matmul_tiles(Queue&, const MatmulParams&);
// `count` dense products of one input.
bool matmul_groups(Queue&, const MatmulParams*, int count);
bool matmul_floats(Queue&, const MatmulParams*, int count);
bool matmul_down(Queue&, const MatmulParams&);

#if defined(__CUDACC__)

// First block of segment i of n (ops/matmul/matmul.h).
__device__ inline int segment_start(int64_t n, int i) { return static_cast<int>(n * i / 8); }

// The expert whose range holds slot s: the whole warp looks at 32 bounds at a time.
__device__ inline int expert_of_slot(const MatmulParams& a, int64_t s) {
  int expert = 0;
  for (int first = 0; first < a.experts; first += 32) {
    const int e = first + lane_id();
    const unsigned past = __ballot_sync(kAllLanes, e < a.experts && a.expert_begin[e + 1] <= s);
    expert += __popc(past);
    if (past != kAllLanes) break;
  }
  return expert;
}

// Segment sums held by lanes first .. first+7, added in order; every lane of the eight gets the sum.
__device__ inline float join_segments(float acc, int first, int stride = 1) {
  float y = __shfl_sync(kAllLanes, acc, first);
#pragma unroll
  for (int i = 1; i < 8; ++i) y = y + __shfl_sync(kAllLanes, acc, first + i * stride);
  return y;
}

// fold32 of N sums at once (N a multiple of 32), each lane holding its share of all: at every step lanes keep
// one half of the sums and hand over the other. Lane l ends with sums l*N/32 .. in v[0 .. N/32).
template <int N, int kStep = 16>
__device__ inline void fold_many(float* v) {
  const bool high = lane_id() & kStep;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const float keep = high ? v[i + N / 2] : v[i], send = high ? v[i] : v[i + N / 2];
    v[i] = keep + __shfl_xor_sync(kAllLanes, send, kStep);
  }
  if constexpr (kStep > 1) fold_many<N / 2, kStep / 2>(v);
}

#endif

}  // namespace argon::cuda
