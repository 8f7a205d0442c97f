// The indexer: keys of blocks, and the exact selection of the best blocks. Scores become unsigned keys in
// order; the budget-th largest key is found by four passes over its bytes; then the kept blocks are written
// in ascending order, equal keys from the left as far as the budget reaches.
#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void qsa_block_keys(ops::QsaBlockKeysArgs a) {
  const int64_t u = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (u >= a.blocks) return;
  const int64_t b = a.first + u;
  const bool f16 = a.type == ops::KvType::kF16;
  const float inv_r = __fdiv_rn(1.0f, static_cast<float>(a.r));
  float* key = a.keys + b * a.di;
  for (int64_t i = lane_id(); i < a.di; i += 32) {
    float sum = load_kv(a.raw, f16, b * a.r * a.di + i);
    for (int64_t j = 1; j < a.r; ++j) sum = sum + load_kv(a.raw, f16, (b * a.r + j) * a.di + i);
    key[i] = sum * inv_r;
  }
  const float r = inverse_rms(warp_dot(key, key, a.di), a.di, a.eps);
  for (int64_t i = lane_id(); i < a.di; i += 32) key[i] = (key[i] * r) * a.w[i];
  __syncwarp();
  const int64_t half = a.rot / 2;
  const float* c = a.rope_table + b * a.r * a.rot;
  for (int64_t i = lane_id(); i < half; i += 32) {
    const float x1 = key[i], x2 = key[i + half], s = c[half + i];
    key[i] = __fmaf_rn(x1, c[i], -(x2 * s));
    key[i + half] = __fmaf_rn(x2, c[i], x1 * s);
  }
}

struct SelectParams {
  ops::QsaSelectArgs a;
  int64_t t0, end;  // tokens of this launch
  int64_t stride;   // of a token's keys
  uint32_t* keys;
};

// A warp scores one block for one token at a time; 8 warps share a token's blocks.
__global__ void __launch_bounds__(kThreads) qsa_scores(SelectParams p) {
  const ops::QsaSelectArgs& a = p.a;
  const int64_t t = p.t0 + blockIdx.y, blocks = (a.position0 + t + 1) / a.r;
  if (blocks <= a.budget) return;
  for (int64_t b = int64_t{blockIdx.x} * 8 + warp_id(); b < blocks; b += int64_t{gridDim.x} * 8) {
    float score = 0.0f;
    for (int64_t h = 0; h < a.ni; ++h) {
      const float s = warp_dot(a.iq + (t * a.ni + h) * a.di, a.keys + b * a.di, a.di);
      score = score + (s > 0.0f ? s : 0.0f);
    }
    if (lane_id() == 0) p.keys[blockIdx.y * p.stride + b] = order_key(score);
  }
}

constexpr int kTileTokens = 4, kTileKeys = 4, kTileSteps = 16;

// The same for 4 heads of 128 and many tokens: a warp takes 4 tokens by 4 blocks at a time, the queries in
// its registers, and folds the 64 sums together.
__global__ void __launch_bounds__(kThreads) qsa_scores_tiles(SelectParams p) {
  constexpr int kNi = 4, kDi = 128, kRows = kTileTokens * kNi;
  const ops::QsaSelectArgs& a = p.a;
  const int lane = lane_id();
  const int64_t row0 = int64_t{blockIdx.y} * kTileTokens, t0 = p.t0 + row0;
  const auto blocks_of = [&](int64_t t) { return (a.position0 + t + 1) / a.r; };
  const int64_t last = min(t0 + kTileTokens, p.end) - 1;
  const int64_t most = blocks_of(last);
  if (most <= a.budget) return;
  float q[kRows][kDi / 32];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int64_t t = min(t0 + i / kNi, last);
#pragma unroll
    for (int j = 0; j < kDi / 32; ++j) q[i][j] = a.iq[(t * kNi + i % kNi) * kDi + 32 * j + lane];
  }
  // After the fold an even lane and the next one hold the heads of one block and token.
  const int key = lane / 2 / kTileTokens, token = lane / 2 % kTileTokens;
  const int64_t own_blocks = t0 + token < p.end ? blocks_of(t0 + token) : 0;
  uint32_t* to = p.keys + (row0 + token) * p.stride;
  const int64_t first = (int64_t{blockIdx.x} * (kThreads / 32) + warp_id()) * kTileKeys * kTileSteps;
  for (int step = 0; step < kTileSteps; ++step) {
    const int64_t b = first + step * kTileKeys;
    if (b >= most) break;
    float sums[kTileKeys * kRows] = {};
#pragma unroll
    for (int k = 0; k < kTileKeys; ++k) {
      const float* from = a.keys + (b + k < most ? b + k : most - 1) * kDi + lane;
#pragma unroll
      for (int j = 0; j < kDi / 32; ++j) {
        const float x = from[32 * j];
#pragma unroll
        for (int i = 0; i < kRows; ++i) sums[k * kRows + i] = __fmaf_rn(q[i][j], x, sums[k * kRows + i]);
      }
    }
    fold_many<kTileKeys * kRows>(sums);
    const float r0 = sums[0] > 0.0f ? sums[0] : 0.0f, r1 = sums[1] > 0.0f ? sums[1] : 0.0f;
    const float r2 = __shfl_xor_sync(kAllLanes, r0, 1), r3 = __shfl_xor_sync(kAllLanes, r1, 1);
    const float score = (((0.0f + r0) + r1) + r2) + r3;
    if (lane % 2 == 0 && b + key < own_blocks) to[b + key] = order_key(score);
  }
}

// Inclusive sum over the block of 256 threads.
__device__ int block_scan(int v, int* shared) {
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    const int other = __shfl_up_sync(kAllLanes, v, s);
    if (lane_id() >= s) v += other;
  }
  __syncthreads();
  if (lane_id() == 31) shared[warp_id()] = v;
  __syncthreads();
  for (int w = 0; w < warp_id(); ++w) v += shared[w];
  return v;
}

__global__ void __launch_bounds__(kThreads) qsa_pick(SelectParams p) {
  const ops::QsaSelectArgs& a = p.a;
  __shared__ int histogram[256], shared[8];
  __shared__ uint32_t found_byte;
  __shared__ int found_left;
  const int tid = static_cast<int>(threadIdx.x);
  const int64_t t = p.t0 + blockIdx.x, blocks = (a.position0 + t + 1) / a.r;
  if (blocks <= a.budget) {
    if (tid == 0) a.count[t] = ops::kAllBlocks;
    return;
  }
  const uint32_t* keys = p.keys + blockIdx.x * p.stride;
  uint32_t prefix = 0;
  int left = static_cast<int>(a.budget);  // still to be taken among keys with this prefix
  for (int shift = 24; shift >= 0; shift -= 8) {
    histogram[tid] = 0;
    __syncthreads();
    for (int64_t b = tid; b < blocks; b += kThreads) {
      const uint32_t key = keys[b];
      if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&histogram[key >> shift & 255], 1);
    }
    __syncthreads();
    // Thread i looks at byte 255-i, so that the scan counts from the largest.
    const int own = histogram[255 - tid], upto = block_scan(own, shared);
    if (upto >= left && upto - own < left) {
      found_byte = static_cast<uint32_t>(255 - tid);
      found_left = left - (upto - own);
    }
    __syncthreads();
    prefix = prefix << 8 | found_byte;
    left = found_left;
    __syncthreads();
  }
  // prefix is now the smallest kept key; `left` blocks of exactly this key are kept, from the left.
  int equal_before = 0, kept_before = 0;
  for (int64_t first = 0; first < blocks; first += kThreads) {
    const int64_t b = first + tid;
    const uint32_t key = b < blocks ? keys[b] : 0;
    const int equal = b < blocks && key == prefix;
    const int equal_upto = block_scan(equal, shared) + equal_before;
    const int keep = b < blocks && (key > prefix || (equal && equal_upto <= left));
    const int kept_upto = block_scan(keep, shared) + kept_before;
    if (keep) a.kept[t * a.budget + kept_upto - 1] = static_cast<int32_t>(b);
    __syncthreads();
    if (tid == kThreads - 1) shared[0] = equal_upto, shared[1] = kept_upto;
    __syncthreads();
    equal_before = shared[0];
    kept_before = shared[1];
    __syncthreads();
  }
  if (tid == 0) a.count[t] = static_cast<int32_t>(a.budget);
}

__global__ void qsa_keep_all(ops::QsaSelectArgs a) {
  const int64_t t = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t < a.T) a.count[t] = ops::kAllBlocks;
}

}  // namespace

void run(Queue& queue, const ops::QsaBlockKeysArgs& a) {
  if (a.blocks > 0) queue.launch(qsa_block_keys, blocks_for(a.blocks, 4), 128, 0, a);
}

void select_by(Queue& queue, const ops::QsaSelectArgs& a, int64_t chunk_keys) {
  if (a.T == 0) return;
  const int64_t most = (a.position0 + a.T) / a.r;
  if (most <= a.budget) return queue.launch(qsa_keep_all, blocks_for(a.T, 256), 256, 0, a);
  const int64_t rows = chunk_keys / most < 1 ? 1 : chunk_keys / most < a.T ? chunk_keys / most : a.T;
  auto* keys = static_cast<uint32_t*>(queue.scratch(static_cast<size_t>(rows * most) * sizeof(uint32_t)));
  if (keys == nullptr) return;
  for (int64_t t = 0; t < a.T; t += rows) {
    const auto n = static_cast<unsigned>(a.T - t < rows ? a.T - t : rows);
    const SelectParams p{a, t, t + n, most, keys};
    if (a.ni == 4 && a.di == 128 && n >= 64) {
      queue.launch(qsa_scores_tiles,
                   dim3(blocks_for(most, kThreads / 32 * kTileKeys * kTileSteps), blocks_for(n, kTileTokens)),
                   kThreads, 0, p);
    } else {
      queue.launch(qsa_scores, dim3(blocks_for(most, 64), n), kThreads, 0, p);
    }
    queue.launch(qsa_pick, n, kThreads, 0, p);
  }
}

void run(Queue& queue, const ops::QsaSelectArgs& a) { select_by(queue, a, int64_t{64} << 20); }

}  // namespace argon::cuda
