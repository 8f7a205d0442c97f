// Matrix products of float32 weights with many rows of x: sum32 over K by fma, lane j of a warp taking terms
// j, j+32, ... of all its outputs.
//
// Up to four rows of W: bound by reading x once. A warp takes one or two rows of x, of which it has 16 loads
// of 128 bytes on their way; W comes to the block's shared memory.
//
// From 24 rows on, several matrices of one x together: a warp computes 16 rows of W by 8 rows of x, so that
// 24 values from shared memory serve 128 fma; a block is 32 by 32, and its parts of W and x come by
// asynchronous copies.
//
// Bound: one fma per output and k, and 24 shared memory reads of 128 bytes to 128 fma of a warp: 32 cycles of
// arithmetic against 24 of reading on a processor.
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kMostPieces = 4;
constexpr int kDeep = 128;  // values of a row in a stage
constexpr int kStages = 3;
constexpr int kWarpsM = 2, kWarpsT = 4, kThreads = 32 * kWarpsM * kWarpsT;

// Matrices that are multiplied with the same x; `first` is a piece's first row among all of them, each being
// given whole warps' rows.
struct FloatPiece {
  const uint8_t* w;
  float* y;
  int64_t ldy, row_bytes;
  int rows, first;
};
struct FloatParams {
  FloatPiece pieces[kMostPieces];
  const float* x;
  int64_t T, K;
};

__device__ inline const FloatPiece& piece_of(const FloatParams& a, int row) {
  int at = 0;
#pragma unroll
  for (int i = 1; i < kMostPieces; ++i) {
    if (row >= a.pieces[i].first) at = i;
  }
  return a.pieces[at];
}

template <int kRows, int kCols>
struct FloatTile {
  static constexpr int kTileM = kRows * kWarpsM, kTileT = kCols * kWarpsT;
  struct Stage {
    float w[kTileM][kDeep], x[kTileT][kDeep];
  };
};

// A warp's outputs: kRows of W by kCols of x.
template <int kRows, int kCols>
__global__ void __launch_bounds__(kThreads, kRows* kCols > 64 ? 1 : 3)
    matmul_floats_kernel(const __grid_constant__ FloatParams a) {
  begin_early();
  using Tile = FloatTile<kRows, kCols>;
  extern __shared__ __align__(16) uint8_t shared[];
  auto* stages = reinterpret_cast<typename Tile::Stage*>(shared);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id();
  const int m0 = static_cast<int>(blockIdx.x) * Tile::kTileM;
  const int64_t t0 = int64_t{blockIdx.y} * Tile::kTileT, K = a.K;
  // A warp copies whole parts of rows: rows warp_id() + 8*j.
  constexpr int kWarps = kThreads / 32, kEachM = Tile::kTileM / kWarps, kEachT = Tile::kTileT / kWarps;
  const float *w_from[kEachM], *x_from[kEachT];
#pragma unroll
  for (int j = 0; j < kEachM; ++j) {
    const int row = m0 + tid / 32 + j * kWarps;
    const FloatPiece& piece = piece_of(a, row);
    w_from[j] =
        reinterpret_cast<const float*>(piece.w + min(row - piece.first, piece.rows - 1) * piece.row_bytes) +
        lane * 4;
  }
#pragma unroll
  for (int j = 0; j < kEachT; ++j) x_from[j] = a.x + min(t0 + tid / 32 + j * kWarps, a.T - 1) * K + lane * 4;
  const auto fetch = [&](int64_t k, int slot) {
#pragma unroll
    for (int j = 0; j < kEachM; ++j)
      copy_async<16>(&stages[slot].w[tid / 32 + j * kWarps][lane * 4], w_from[j] + k, true);
#pragma unroll
    for (int j = 0; j < kEachT; ++j)
      copy_async<16>(&stages[slot].x[tid / 32 + j * kWarps][lane * 4], x_from[j] + k, true);
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
    const auto& s = stages[slot];
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
  const FloatPiece& piece = piece_of(a, m0 + row0);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int at = lane * kSums + i, m = m0 + row0 + at % kRows - piece.first;
    const int64_t t = t0 + col0 + at / kRows;
    if (m < piece.rows && t < a.T) piece.y[t * piece.ldy + m] = acc[i];
  }
}

template <int kRows, int kCols>
bool launch_floats(Queue& queue, FloatParams& p, const MatmulParams* all, int count) {
  using Tile = FloatTile<kRows, kCols>;
  int64_t rows = 0;
  for (int i = 0; i < kMostPieces; ++i) {
    if (i >= count) {
      p.pieces[i].first = 0x7fffffff;
      continue;
    }
    const MatmulParams& a = all[i];
    p.pieces[i] = {a.w.data, a.y, a.ldy, a.w.row_bytes, static_cast<int>(a.w.rows), static_cast<int>(rows)};
    rows += (a.w.rows + kRows - 1) / kRows * kRows;
  }
  const dim3 grid(blocks_for(rows, Tile::kTileM), blocks_for(p.T, Tile::kTileT));
  // Few blocks: smaller tiles occupy more processors.
  if (kRows * kCols > 64 && static_cast<int>(grid.x * grid.y) * 4 < queue.processors() * 3) return false;
  constexpr size_t kShared = kStages * sizeof(typename Tile::Stage);
  static const cudaError_t raised = cudaFuncSetAttribute(
      matmul_floats_kernel<kRows, kCols>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (raised != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  queue.launch_early(matmul_floats_kernel<kRows, kCols>, grid, kThreads, kShared, p);
  return true;
}

constexpr int kFew = 4;            // rows of W
constexpr int kFewDeep = 16 * 32;  // values of a row at a time

// kWarps warps, each kTokens rows of x.
template <int kWarps, int kTokens>
__global__ void __launch_bounds__(32 * kWarps) matmul_few(MatmulParams a) {
  __shared__ float w[2][kFew][kFewDeep];
  begin_early();
  const int64_t K = a.w.cols, t0 = (int64_t{blockIdx.x} * kWarps + warp_id()) * kTokens;
  const int lane = lane_id(), rows = static_cast<int>(a.w.rows);
  const auto fetch = [&](int64_t k, int slot) {
    for (int i = static_cast<int>(threadIdx.x); i < kFew * kFewDeep / 4; i += 32 * kWarps) {
      const int row = i / (kFewDeep / 4), at = i % (kFewDeep / 4) * 4;
      copy_async<16>(&w[slot][row][at], a.w.data + row * a.w.row_bytes + (k + at) * 4,
                     row < rows && k + at < K);
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

bool matmul_floats(Queue& queue, const MatmulParams* all, int count) {
  if (count < 1 || count > kMostPieces) return false;
  const MatmulParams& a = all[0];
  int64_t rows = 0;
  for (int i = 0; i < count; ++i) {
    const MatmulParams& b = all[i];
    if (b.w.type != WeightType::kF32 || b.expert_begin != nullptr || b.x != a.x || b.T != a.T ||
        b.w.cols != a.w.cols || b.w.row_bytes % 16 != 0 || reinterpret_cast<uintptr_t>(b.w.data) % 16 != 0 ||
        b.w.rows < 1 || (count > 1 && b.w.rows <= kFew)) {
      return false;
    }
    rows += b.w.rows;
  }
  if (a.w.cols % kDeep != 0 || reinterpret_cast<uintptr_t>(a.x) % 16 != 0) return false;
  if (rows <= kFew && a.w.cols % kFewDeep == 0 && a.T >= 128) {
    if (a.T <= 8 * queue.processors()) {
      queue.launch_early(matmul_few<4, 1>, blocks_for(a.T, 4), 32 * 4, 0, a);
    } else {
      queue.launch_early(matmul_few<8, 2>, blocks_for(a.T, 16), 32 * 8, 0, a);
    }
    return true;
  }
  if (rows < 24 || rows >= int64_t{1} << 30 || a.T < 32) return false;
  FloatParams p{};
  p.x = a.x, p.T = a.T, p.K = a.w.cols;
  return launch_floats<16, 8>(queue, p, all, count) || launch_floats<8, 4>(queue, p, all, count);
}

}  // namespace argon::cuda
