// Matrix products of float32 weights with many rows of x: sum32 over K by fma, lane j of a warp taking terms
// j, j+32, ... of all its outputs.
//
// Up to four rows of W: bound by reading x once. A warp takes one or two rows of x, of which it has 16 loads
// of 128 bytes on their way; W comes to the block's shared memory.
//
// From 24 rows on: a warp computes 16 rows of W by 8 rows of x, so that 24 values from shared
// memory serve 128 fma; a block is 32 by 32, and its parts of W and x come by asynchronous copies.
//
// Bound: one fma per output and k, and 24 shared memory reads of 128 bytes to 128 fma of a warp: 32 cycles of
// arithmetic against 24 of reading on a processor.
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kRows = 16, kCols = 8;  // of a warp
constexpr int kWarpsM = 2, kWarpsT = 4, kThreads = 32 * kWarpsM * kWarpsT;
constexpr int kTileM = kRows * kWarpsM, kTileT = kCols * kWarpsT;
constexpr int kDeep = 128;  // values of a row in a stage
constexpr int kStages = 3;

struct Stage {
  float w[kTileM][kDeep], x[kTileT][kDeep];
};

__global__ void __launch_bounds__(kThreads, 1) matmul_floats_kernel(MatmulParams a) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto* stages = reinterpret_cast<Stage*>(shared);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id();
  const int64_t m0 = int64_t{blockIdx.x} * kTileM, t0 = int64_t{blockIdx.y} * kTileT, K = a.w.cols;
  // A warp copies whole parts of rows: rows warp_id() + 8*j.
  constexpr int kEach = kTileM / (kThreads / 32);
  static_assert(kTileM == kTileT);
  const float *w_from[kEach], *x_from[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int row = tid / 32 + j * (kThreads / 32);
    w_from[j] =
        reinterpret_cast<const float*>(a.w.data + min(m0 + row, a.w.rows - 1) * a.w.row_bytes) + lane * 4;
    x_from[j] = a.x + min(t0 + row, a.T - 1) * K + lane * 4;
  }
  const auto fetch = [&](int64_t k, int slot) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int row = tid / 32 + j * (kThreads / 32);
      copy_async<16>(&stages[slot].w[row][lane * 4], w_from[j] + k, true);
      copy_async<16>(&stages[slot].x[row][lane * 4], x_from[j] + k, true);
    }
  };
  float acc[kRows * kCols] = {};
  const int row0 = warp_id() % kWarpsM * kRows, col0 = warp_id() / kWarpsM * kCols;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s * kDeep < K) fetch(s * kDeep, s);
    asm volatile("cp.async.commit_group;");
  }
  int slot = 0;
  for (int64_t k = 0; k < K; k += kDeep) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    __syncthreads();
    const int64_t ahead = k + (kStages - 1) * kDeep;
    if (ahead < K) fetch(ahead, slot == 0 ? kStages - 1 : slot - 1);
    asm volatile("cp.async.commit_group;");
    const Stage& s = stages[slot];
    slot = slot + 1 == kStages ? 0 : slot + 1;
#pragma unroll
    for (int i = 0; i < kDeep / 32; ++i) {
      float w[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) w[r] = s.w[row0 + r][i * 32 + lane];
#pragma unroll
      for (int c = 0; c < kCols; ++c) {
        const float x = s.x[col0 + c][i * 32 + lane];
#pragma unroll
        for (int r = 0; r < kRows; ++r) acc[c * kRows + r] = __fmaf_rn(w[r], x, acc[c * kRows + r]);
      }
    }
  }
  asm volatile("cp.async.wait_all;");
  fold_many<kRows * kCols>(acc);
  constexpr int kSums = kRows * kCols / 32;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int at = lane * kSums + i;
    const int64_t m = m0 + row0 + at % kRows, t = t0 + col0 + at / kRows;
    if (m < a.w.rows && t < a.T) a.y[t * a.ldy + m] = acc[i];
  }
}

constexpr int kFew = 4;           // rows of W
constexpr int kFewDeep = 16 * 32;  // values of a row at a time

// kWarps warps, each kTokens rows of x.
template <int kWarps, int kTokens>
__global__ void __launch_bounds__(32 * kWarps) matmul_few(MatmulParams a) {
  __shared__ float w[2][kFew][kFewDeep];
  const int64_t K = a.w.cols, t0 = (int64_t{blockIdx.x} * kWarps + warp_id()) * kTokens;
  const int lane = lane_id(), rows = static_cast<int>(a.w.rows);
  const auto fetch = [&](int64_t k, int slot) {
    for (int i = static_cast<int>(threadIdx.x); i < kFew * kFewDeep / 4; i += 32 * kWarps) {
      const int row = i / (kFewDeep / 4), at = i % (kFewDeep / 4) * 4;
      copy_async<16>(&w[slot][row][at], a.w.data + row * a.w.row_bytes + (k + at) * 4, row < rows && k + at < K);
    }
    asm volatile("cp.async.commit_group;");
  };
  const float* x[kTokens];
#pragma unroll
  for (int j = 0; j < kTokens; ++j) x[j] = a.x + min(t0 + j, a.T - 1) * K + lane;
  constexpr int kSteps = kFewDeep / 32, kAhead = kSteps / kTokens;
  // Values i, i + 1, ... of what is ahead, K being a multiple of kAhead*32.
  float acc[kTokens][kFew] = {}, v[kTokens][kAhead];
  const auto load = [&](int64_t k) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) v[j][i] = x[j][k + i * 32];
    }
  };
  fetch(0, 0);
  load(0);
  int slot = 0;
  for (int64_t k0 = 0; k0 < K; k0 += kFewDeep, slot ^= 1) {
    if (k0 + kFewDeep < K) fetch(k0 + kFewDeep, slot ^ 1);
    if (k0 + kFewDeep < K) {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < kTokens; ++part) {
      const int64_t next = k0 + (part + 1) * kAhead * 32;
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int at = (part * kAhead + i) * 32 + lane;
        float wv[kFew];
#pragma unroll
        for (int r = 0; r < kFew; ++r) wv[r] = w[slot][r][at];
#pragma unroll
        for (int j = 0; j < kTokens; ++j) {
#pragma unroll
          for (int r = 0; r < kFew; ++r) acc[j][r] = __fmaf_rn(wv[r], v[j][i], acc[j][r]);
          if (next < K) v[j][i] = x[j][next + i * 32];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kTokens; ++j) {
#pragma unroll
    for (int r = 0; r < kFew; ++r) {
      const float y = fold32(acc[j][r]);
      if (lane == 0 && r < rows && t0 + j < a.T) a.y[(t0 + j) * a.ldy + r] = y;
    }
  }
}

}  // namespace

bool matmul_floats(Queue& queue, const MatmulParams& a) {
  if (a.w.type != WeightType::kF32 || a.expert_begin != nullptr || a.w.cols % kDeep != 0 ||
      a.w.row_bytes % 16 != 0 || reinterpret_cast<uintptr_t>(a.w.data) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(a.x) % 16 != 0) {
    return false;
  }
  if (a.w.rows <= kFew && a.w.cols % kFewDeep == 0 && a.T >= 128) {
    if (a.T <= 8 * queue.processors()) {
      queue.launch(matmul_few<4, 1>, blocks_for(a.T, 4), 32 * 4, 0, a);
    } else {
      queue.launch(matmul_few<8, 2>, blocks_for(a.T, 16), 32 * 8, 0, a);
    }
    return true;
  }
  if (a.w.rows < 24) return false;
  // Few blocks: warps of smaller tiles occupy more processors.
  const dim3 grid(blocks_for(a.w.rows, kTileM), blocks_for(a.T, kTileT));
  if (static_cast<int>(grid.x * grid.y) * 4 < queue.processors() * 3) return false;
  constexpr size_t kShared = kStages * sizeof(Stage);
  static const cudaError_t raised =
      cudaFuncSetAttribute(matmul_floats_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (raised != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  queue.launch(matmul_floats_kernel, grid, kThreads, kShared, a);
  return true;
}

}  // namespace argon::cuda
