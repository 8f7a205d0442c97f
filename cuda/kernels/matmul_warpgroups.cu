// Dense Q8_0 products with many rows of x on the warpgroup instructions of compute capability 9.0 (code for
// sm_90a); matmul_tiles.cu serves other devices and types. One m64nNk32 instruction is the exact integer dot
// of a block of 32 for 64 rows of W and N rows of x; its steps are then added in float32 in block order.
//
// A block stays on its processor and computes one tile of 128 by 128 after another. One warpgroup only
// copies: the operands come as they lie in the device's memory by asynchronous copies, stages of four blocks
// of 32 ahead, across the ends of tiles. The others only compute; they begin each block together, since a
// warpgroup's product hardly gets a turn beside another's float chain (docs/lab/cuda-dense.md).
//
// Tiles are shared out evenly to a stage: where a block's share ends within a tile, it computes that tile's
// beginning first of all and leaves the unfinished sums in memory, where the next block, whose last work the
// tile's end is, finds them. With fewer tiles than processors each segment of K is work of its own, and a
// second kernel adds the segments' sums.
//
// Bound: 3 float operations (scale product, conversion, fma) per output and block of 32; the instructions'
// sums take about 2 cycles a register besides, as they share the float pipe's way to the registers
// (docs/lab/cuda.md).
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/warpgroup.cuh"

namespace argon::cuda {
namespace {

// Not all are used where the code is for other devices.
constexpr int kRows = 128, kCols = 128, kGroups = 2;  // a group computes 64 rows of W
constexpr int kCopiers = 128, kThreads = kCopiers + kGroups * 128;
[[maybe_unused]] constexpr int kSums = 64;                                // of a thread
[[maybe_unused]] constexpr int kCopyRegisters = 40, kSumRegisters = 232;  // of a thread, 168 on average
constexpr int kBlocks = 4;                                                // of 32 in a stage
constexpr int kStages = 6;
[[maybe_unused]] constexpr int kLag = 2;  // stages whose steps are on their way while one is asked for
constexpr int kMostPieces = 6, kMostBlocks = 256;

// One of the matrices that are multiplied with the same x; `first` is its first tile's row of tiles.
struct Piece {
  CUtensorMap codes;  // of 128 rows by 128 bytes
  const uint8_t* scales;
  float* y;
  int64_t ldy;
  int rows, first;
};
struct GroupParams {
  Piece pieces[kMostPieces];
  CUtensorMap codes;   // of x
  const float* steps;  // of x
  int T, n, tiles_t, tiles;
  bool parts;   // a work is a segment of a tile
  bool shares;  // a tile may be shared by two blocks
  float* kept;  // unfinished sums, in the order of threads
};

struct Stage {
  // Chunk c of 16 bytes at c ^ (row & 7).
  alignas(1024) uint8_t x[kCols][128];
  alignas(1024) uint8_t w[kRows][128];
  alignas(16) float d[kBlocks][kCols];  // a lane's four of two eights are neighbours: step_place
  alignas(16) float rows_d[kCols][kBlocks];
  alignas(16) uint16_t scales[kRows][kBlocks];
};
struct Memory {
  Stage stages[kStages];
  uint64_t full[kStages], empty[kStages];
};

// Set when a block's warpgroup has left its unfinished sums; whoever takes them clears it.
[[maybe_unused]] __device__ unsigned handed[kMostBlocks * kGroups];

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Blocks of 32 begin .. end-1 of a tile.
struct Work {
  int tile, begin, end, part;
  bool takes, hands;
};

// This block's i-th; false after the last.
__device__ inline bool work_at(const GroupParams& p, int i, Work& work) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  if (p.parts) {
    const int u = block + i * blocks, part = u / p.tiles;
    if (part >= 8) return false;
    work = {u % p.tiles, segment_start(p.n, part), segment_start(p.n, part + 1), part, false, false};
    return true;
  }
  const unsigned each = p.shares ? static_cast<unsigned>((p.n + kBlocks - 1) / kBlocks) : 1u;
  const unsigned all = static_cast<unsigned>(p.tiles) * each;
  const int from = static_cast<int>(all * static_cast<unsigned>(block) / static_cast<unsigned>(blocks));
  const int to = static_cast<int>(all * static_cast<unsigned>(block + 1) / static_cast<unsigned>(blocks));
  const int steps = static_cast<int>(each);
  const int head = to % steps, tail = from % steps;
  if (head > 0 && i-- == 0) {
    work = {to / steps, 0, head * kBlocks, 0, false, true};
    return true;
  }
  const int first = (from + steps - 1) / steps, whole = to / steps - first;
  if (i < whole) {
    work = {first + i, 0, p.n, 0, false, false};
    return true;
  }
  work = {from / steps, tail * kBlocks, p.n, 0, true, false};
  return i == whole && tail > 0;
}

// Where a thread's i-th sum lies in its group's part of a tile.
__device__ inline int row_of(int group, int i) {
  return group * 64 + warp_id() % 4 * 16 + lane_id() / 4 + i / 2 % 2 * 8;
}
__device__ inline int col_of(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

// Where a tile lies.
struct Place {
  const Piece* piece;
  int m0, t0, rows, count;  // rows of W from m0 on, rows of x from t0 on (at most kCols)
};
__device__ inline Place place_of(const GroupParams& p, int tile) {
  const int mt = tile / p.tiles_t, t0 = tile % p.tiles_t * kCols;
  int at = 0;
#pragma unroll
  for (int i = 1; i < kMostPieces; ++i) {
    if (mt >= p.pieces[i].first) at = i;
  }
  const Piece& piece = p.pieces[at];
  const int m0 = (mt - piece.first) * kRows;
  return {&piece, m0, t0, piece.rows - m0, min(p.T - t0, kCols)};
}

// Where the step of column `col` lies in its sixteen.
__device__ inline int step_place(int col) {
  return (col & ~15) | (col & 6) << 1 | (col & 8) >> 2 | (col & 1);
}

__device__ inline void copy_all(const GroupParams& p, Memory& memory) {
  // One thread asks for the codes of a stage, all for the steps of a row of x and the scales of a row of W.
  // The steps come as they lie; the thread that asked for them turns them.
  const int tid = static_cast<int>(threadIdx.x) % kCopiers, n = p.n, place = step_place(tid);
  int slot = 0, ready = 0, done = 0;
  unsigned parity = 1, turned = 0;  // bit i: the steps of the stage i before lie as in memory
  const auto finish = [&](bool turn) {
    Stage& s = memory.stages[ready];
    if (turn) {
      const float4 d = *reinterpret_cast<const float4*>(s.rows_d[tid]);
      s.d[0][place] = d.x, s.d[1][place] = d.y, s.d[2][place] = d.z, s.d[3][place] = d.w;
    }
    arrive(&memory.full[ready]);
    ready = ready + 1 == kStages ? 0 : ready + 1;
  };
  Work work;
  for (int i = 0; work_at(p, i, work); ++i) {
    const Place at = place_of(p, work.tile);
    const int end = work.end;
    const bool has_scales = tid < at.rows, in_fours = n % 4 == 0 && work.begin % 4 == 0;
    const uint8_t* scales = at.piece->scales + (int64_t{at.m0 + tid} * n + work.begin) * 2;
    const float* steps = p.steps + int64_t{min(at.t0 + tid, p.T - 1)} * n + work.begin;
    for (int b0 = work.begin; b0 < end; b0 += kBlocks) {
      wait_for_phase(&memory.empty[slot], parity);
      Stage& s = memory.stages[slot];
      if (tid == 0) {
        arrive_with(&memory.full[slot], sizeof s.x + sizeof s.w);
        copy_tile(s.x, &p.codes, b0 * 32, at.t0, &memory.full[slot]);
        copy_tile(s.w, &at.piece->codes, b0 * 32, at.m0, &memory.full[slot]);
      }
      if (in_fours) {
        copy_async<16>(s.rows_d[tid], steps, true);
        copy_async<8>(s.scales[tid], scales, has_scales);
      } else {
#pragma unroll
        for (int k = 0; k < kBlocks; ++k) copy_async<4>(&s.d[k][place], steps + k, b0 + k < end);
#pragma unroll
        for (int k = 0; k < kBlocks; k += 2)
          copy_async<4>(&s.scales[tid][k], scales + k * 2, has_scales && b0 + k < end);
      }
      asm volatile("cp.async.commit_group;");
      turned = turned << 1 | (in_fours ? 1u : 0u);
      if (done >= kLag) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kLag) : "memory");
        finish(turned >> kLag & 1);
      }
      ++done;
      scales += kBlocks * 2;
      steps += kBlocks;
      if (++slot == kStages) slot = 0, parity ^= 1;
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = min(done, kLag) - 1; i >= 0; --i) finish(turned >> i & 1);
}

// One block of 32 of all outputs of a thread; the first of a segment closes the one before. `v` are the steps
// of the first 32 columns, those of others are asked for two sixteens ahead.
template <bool kFirst>
__device__ inline void add_block(float (&acc)[kSums], float (&total)[kSums], const int (&c)[kSums],
                                 const float (&sw)[2], const float* steps, float4 (&v)[2]) {
#pragma unroll
  for (int g = 0; g < kSums / 8; ++g) {
    const float d[4] = {v[g % 2].x, v[g % 2].y, v[g % 2].z, v[g % 2].w};
    if (g + 2 < kSums / 8) v[g % 2] = *reinterpret_cast<const float4*>(steps + (g + 2) * 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& y = acc[g * 8 + i];
      if (kFirst) total[g * 8 + i] = total[g * 8 + i] + y;
      y = __fmaf_rn(sw[i / 2 % 2] * d[i / 4 * 2 + i % 2], static_cast<float>(c[g * 8 + i]),
                    kFirst ? 0.0f : y);
    }
  }
}

__device__ inline void compute_all(const GroupParams& p, Memory& memory, int group) {
  const int lane = lane_id(), tid = static_cast<int>(threadIdx.x) % 128;
  const int row = row_of(group, 0), col = lane % 4 * 4;
  const uint64_t x_first = rows_of_128(&memory.stages[0].x[0][0]);
  const uint64_t w_first = rows_of_128(&memory.stages[0].w[group * 64][0]);
  float acc[kSums], total[kSums];
  int c[kSums];
  int slot = 0;
  unsigned parity = 0;
  Work work;
  for (int index = 0; work_at(p, index, work); ++index) {
    const Place at = place_of(p, work.tile);
    const bool wanted = group * 64 < at.rows;
#pragma unroll
    for (int i = 0; i < kSums; ++i) acc[i] = total[i] = -0.0f;  // -0 + x is x, whatever x is
    int segment = 0, end = work.end;
    while (segment_start(p.n, segment) < work.begin) ++segment;
    int segment_begin = segment_start(p.n, segment);
    if (work.takes && wanted) {
      const int from = (static_cast<int>(blockIdx.x) - 1) * kGroups + group;
      if (tid == 0) {
        unsigned there = 0;
        do {
          asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(&handed[from]) : "memory");
        } while (there == 0);
        handed[from] = 0;
      }
      sync_group(1 + group);
      const float* kept = p.kept + int64_t{from} * (2 * kSums * 128) + tid;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        acc[i] = __ldcg(kept + i * 128);
        total[i] = __ldcg(kept + (kSums + i) * 128);
      }
    }
    for (int b0 = work.begin; b0 < end; b0 += kBlocks) {
      wait_for_phase(&memory.full[slot], parity);
      const Stage& s = memory.stages[slot];
      const int blocks = min(kBlocks, end - b0);
      const auto stage = static_cast<uint64_t>(slot * static_cast<int>(sizeof(Stage) / 16));
#pragma unroll 1
      for (int k = 0; k < blocks; ++k) {
        sync_groups<kGroups>();
        if (!wanted) continue;
        const uint64_t more = stage + static_cast<uint64_t>(k * 2);
        hold<kSums>(c);
        begin_sums();
        group_dot(c, w_first + more, x_first + more);
        commit_sums();
        const float sw[2] = {__half2float(__ushort_as_half(s.scales[row][k])),
                             __half2float(__ushort_as_half(s.scales[row + 8][k]))};
        const float* steps = &s.d[k][col];
        float4 v[2] = {*reinterpret_cast<const float4*>(steps), *reinterpret_cast<const float4*>(steps + 16)};
        wait_for_sums();
        hold<kSums>(c);
        if (b0 + k == segment_begin) {
          segment_begin = segment_start(p.n, ++segment);
          add_block<true>(acc, total, c, sw, steps, v);
        } else {
          add_block<false>(acc, total, c, sw, steps, v);
        }
      }
      // Every reader for itself: racecheck follows no arrival of one lane for its warp (2 % of a product).
      arrive(&memory.empty[slot]);
      if (++slot == kStages) slot = 0, parity ^= 1;
    }
    if (!wanted) continue;
    if (work.hands) {
      const int to = static_cast<int>(blockIdx.x) * kGroups + group;
      float* kept = p.kept + int64_t{to} * (2 * kSums * 128) + tid;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        __stcg(kept + i * 128, acc[i]);
        __stcg(kept + (kSums + i) * 128, total[i]);
      }
      __threadfence();
      sync_group(1 + group);
      if (tid == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(&handed[to]) : "memory");
      continue;
    }
    if (p.parts) {
      float* kept = p.kept + (int64_t{work.tile * 8 + work.part} * kGroups + group) * (kSums * 128) + tid;
#pragma unroll
      for (int i = 0; i < kSums; ++i) kept[i * 128] = total[i] + acc[i];
      continue;
    }
    float* y = at.piece->y + int64_t{at.t0} * at.piece->ldy + at.m0;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int t = col_of(i), m = row_of(group, i);
      if (t < at.count && m < at.rows) y[int64_t{t} * at.piece->ldy + m] = total[i] + acc[i];
    }
  }
}

#endif

__global__ void __launch_bounds__(kThreads, 1) matmul_groups_kernel(const __grid_constant__ GroupParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  start_dependents();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      make_barrier(&memory.full[i], kCopiers + 1);
      make_barrier(&memory.empty[i], kGroups * 128);
    }
    fence_barriers();
  }
  __syncthreads();
  wait_for_earlier();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == kGroups) {
    give_registers<kCopyRegisters>();
    copy_all(p, memory);
  } else {
    take_registers<kSumRegisters>();
    compute_all(p, memory, group);
  }
#endif
}

// A thread per eight outputs of a tile: the segments' sums from the left.
__global__ void join_group_parts(const __grid_constant__ GroupParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  begin_early();
  constexpr int kEach = 8, kStep = kGroups * kSums * 128;
  const int i0 = static_cast<int>(blockIdx.x) % (kSums / kEach) * kEach;
  const int unit = static_cast<int>(blockIdx.x) / (kSums / kEach), group = unit % kGroups,
            tile = unit / kGroups;
  const Place at = place_of(p, tile);
  float* y = at.piece->y + int64_t{at.t0} * at.piece->ldy + at.m0;
  const float* kept = p.kept + int64_t{tile} * (8 * kStep) + group * (kSums * 128) + threadIdx.x;
#pragma unroll
  for (int i = i0; i < i0 + kEach; ++i) {
    const int t = col_of(i), m = row_of(group, i);
    if (t >= at.count || m >= at.rows) continue;
    float sum = __ldcg(kept + i * 128);
#pragma unroll
    for (int s = 1; s < 8; ++s) sum = sum + __ldcg(kept + i * 128 + s * kStep);
    y[int64_t{t} * at.piece->ldy + m] = sum;
  }
#endif
}

// What the code for sm_90a has shared memory for.
__global__ void has_groups(int* out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ int marker[32];
  marker[threadIdx.x % 32] = *out;
  __syncthreads();
  *out = marker[*out % 32];
#endif
}

bool groups_there() {
  cudaFuncAttributes f{};
  const bool known = cudaFuncGetAttributes(&f, has_groups) == cudaSuccess && f.sharedSizeBytes > 0;
  const bool raised =
      known && cudaFuncSetAttribute(matmul_groups_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(Memory)) == cudaSuccess;
  cudaGetLastError();
  return raised;
}

// Tiles of 128 rows by 128 bytes of `rows` rows of `bytes`; false when the driver has no such maps.
bool map_rows(CUtensorMap* map, const void* data, int64_t rows, int64_t bytes) {
  static const auto encode = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
      cudaGetLastError();
      f = nullptr;
    }
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(f);
  }();
  if (encode == nullptr) return false;
  const cuuint64_t size[] = {static_cast<cuuint64_t>(bytes), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(bytes)};
  const cuuint32_t box[] = {128, 128}, each[] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), size, stride, box, each,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

bool matmul_groups(Queue& queue, const MatmulParams* all, int count) {
  static const bool there = groups_there();
  if (!there || count < 1 || count > kMostPieces) return false;
  const MatmulParams& a = all[0];
  const int64_t n = a.w.cols / 32, tiles_t = blocks_for(a.T, kCols);
  int64_t tiles_m = 0;
  GroupParams p{};
  for (int i = 0; i < count; ++i) {
    const MatmulParams& b = all[i];
    // Eight segments with blocks in each; words of two scales.
    if (b.w.type != WeightType::kQ8_0 || !b.w.split || b.expert_begin != nullptr || b.w.cols != a.w.cols ||
        b.T != a.T || b.q.codes != a.q.codes || b.w.rows < 1 || b.w.rows >= int64_t{1} << 31) {
      return false;
    }
    Piece& piece = p.pieces[i];
    if (!map_rows(&piece.codes, b.w.data, b.w.rows, b.w.cols)) return false;
    piece.scales = b.w.data + b.w.scales, piece.y = b.y, piece.ldy = b.ldy;
    piece.rows = static_cast<int>(b.w.rows), piece.first = static_cast<int>(tiles_m);
    tiles_m += blocks_for(b.w.rows, kRows);
  }
  for (int i = count; i < kMostPieces; ++i) p.pieces[i].first = 0x7fffffff;
  const int64_t tiles = tiles_m * tiles_t, steps = (n + kBlocks - 1) / kBlocks;
  const int processors = queue.processors() < kMostBlocks ? queue.processors() : kMostBlocks;
  if (a.T <= 64 || n < 8 || n % 2 != 0 || reinterpret_cast<uintptr_t>(a.q.d) % 16 != 0 ||
      tiles * steps * (processors + 1) >= int64_t{1} << 32)
    return false;
  if (!map_rows(&p.codes, a.q.codes, a.T, a.w.cols)) return false;
  p.steps = a.q.d;
  p.T = static_cast<int>(a.T), p.n = static_cast<int>(n);
  p.tiles_t = static_cast<int>(tiles_t), p.tiles = static_cast<int>(tiles);
  // Segments begin at whole words of scales. Their sums go through memory: for a long K or few tiles.
  p.parts = n % 16 == 0 && n >= 64 && (tiles * 2 <= processors || (tiles < processors && n >= 160));
  p.shares = tiles > processors && tiles % processors != 0 && n >= 40;
  const int64_t kept = p.parts    ? tiles * 8 * (kRows * kCols)
                       : p.shares ? int64_t{processors} * 2 * (kRows * kCols)
                                  : 0;
  if (kept > 0) {
    p.kept = static_cast<float*>(queue.scratch(static_cast<size_t>(kept) * sizeof(float)));
    if (p.kept == nullptr) return true;
  }
  const int64_t works = p.parts ? tiles * 8 : tiles;
  const int blocks = static_cast<int>(works < processors ? works : processors);
  queue.launch_early(matmul_groups_kernel, static_cast<unsigned>(blocks), kThreads, sizeof(Memory), p);
  if (p.parts) {
    queue.launch_early(join_group_parts, static_cast<unsigned>(tiles * (kRows * kCols / 128 / 8)), 128, 0, p);
  }
  return true;
}

}  // namespace argon::cuda
