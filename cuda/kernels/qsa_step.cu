// The indexer's selection for one token: scores of many blocks by many warps, then one block of threads that
// holds all scores in registers and finds the budget-th largest bit by bit, counting, so that no atomics
// meet.
#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kHeads = 4, kDi = 128, kTerms = kDi / 32;
constexpr int kEach = 8;  // blocks that a warp scores together: 8 x 4 heads fold as 32 sums
constexpr int kWarps = 4;
constexpr int kThreads = 1024;  // of the selection

struct OneParams {
  ops::QsaSelectArgs a;
  int32_t blocks;
  uint32_t* keys;
};

__global__ void __launch_bounds__(kWarps * 32) score_one(OneParams p) {
  begin_early();
  const int lane = lane_id(), first = (static_cast<int>(blockIdx.x) * kWarps + warp_id()) * kEach;
  if (first >= p.blocks) return;
  float q[kHeads][kTerms], acc[kEach * kHeads] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int i = 0; i < kTerms; ++i) q[h][i] = p.a.iq[h * kDi + 32 * i + lane];
  }
#pragma unroll
  for (int b = 0; b < kEach; ++b) {
    const float* key = p.a.keys + int64_t{min(first + b, p.blocks - 1)} * kDi + lane;
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      const float k = key[32 * i];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) acc[b * kHeads + h] = __fmaf_rn(q[h][i], k, acc[b * kHeads + h]);
    }
  }
  fold_many<kEach * kHeads>(acc);
  const float relu = acc[0] > 0.0f ? acc[0] : 0.0f;
  float score = 0.0f;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) score = score + __shfl_sync(kAllLanes, relu, lane / kHeads * kHeads + h);
  const int b = first + lane / kHeads;
  if (lane % kHeads == 0 && b < p.blocks) p.keys[b] = order_key(score);
}

// The block's total of v; `shared` is used by turns.
__device__ inline int block_total(int v, int (&shared)[2][32], int turn) {
  v = __reduce_add_sync(kAllLanes, v);
  if (lane_id() == 0) shared[turn & 1][warp_id()] = v;
  __syncthreads();
  return __reduce_add_sync(kAllLanes, shared[turn & 1][lane_id()]);
}

// Thread t holds blocks t*kOwn ..; absent ones have key 0, which no score has.
template <int kOwn>
__global__ void __launch_bounds__(kThreads) pick_one(OneParams p) {
  __shared__ int shared[2][32];
  begin_early();
  const int first = static_cast<int>(threadIdx.x) * kOwn, budget = static_cast<int>(p.a.budget);
  uint32_t keys[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) keys[i] = first + i < p.blocks ? p.keys[first + i] : 0;
  uint32_t smallest = 0;  // kept key
  int turn = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t tried = smallest | 1u << bit;
    int count = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) count += keys[i] >= tried;
    count = block_total(count, shared, turn++);
    if (count >= budget) smallest = tried;
    if (count == budget) break;
  }
  int greater = 0, equal = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) greater += keys[i] > smallest, equal += keys[i] == smallest;
  const int left = budget - block_total(greater, shared, turn++);  // of the equal ones, from the left
  // Both counts before this thread, in one word each.
  int both = greater << 16 | equal, upto = both;
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    const int other = __shfl_up_sync(kAllLanes, upto, s);
    if (lane_id() >= s) upto += other;
  }
  if (lane_id() == 31) shared[turn & 1][warp_id()] = upto;
  __syncthreads();
  int before =
      upto - both + __reduce_add_sync(kAllLanes, lane_id() < warp_id() ? shared[turn & 1][lane_id()] : 0);
  int equal_before = before & 0xffff;
  int at = (before >> 16) + min(equal_before, left);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const bool same = keys[i] == smallest;
    if (keys[i] > smallest || (same && equal_before < left)) p.a.kept[at++] = first + i;
    equal_before += same;
  }
  if (threadIdx.x == 0) p.a.count[0] = budget;
}

}  // namespace

bool select_one(Queue& queue, const ops::QsaSelectArgs& a) {
  const int64_t blocks = (a.position0 + 1) / a.r;
  if (a.T != 1 || a.ni != kHeads || a.di != kDi || blocks <= a.budget || a.budget < 1 ||
      blocks > 32 * kThreads) {
    return false;
  }
  auto* keys = static_cast<uint32_t*>(queue.scratch(static_cast<size_t>(blocks) * sizeof(uint32_t)));
  if (keys == nullptr) return true;
  const OneParams p{a, static_cast<int32_t>(blocks), keys};
  queue.launch_early(score_one, blocks_for(blocks, kWarps * kEach), kWarps * 32, 0, p);
  const auto pick = blocks <= 4 * kThreads    ? pick_one<4>
                    : blocks <= 8 * kThreads  ? pick_one<8>
                    : blocks <= 16 * kThreads ? pick_one<16>
                                              : pick_one<32>;
  queue.launch_early(pick, 1, kThreads, 0, p);
  return true;
}

}  // namespace argon::cuda
