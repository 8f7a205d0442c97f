// Dense Q8_0 products with many rows of x on the warpgroup instructions of compute capability 9.0 (code for
// sm_90a); matmul_tiles.cu serves other devices and types. One m64n64k32 instruction is the exact integer dot
// of a block of 32 for 64 rows of W and 64 rows of x; its steps are then added in float32 in block order.
//
// The operands stay in shared memory, where they come as they lie in the device's memory by asynchronous
// copies, so that a scheduler has little to do but the float chain; four warps of it take turns, one waiting
// for its sums while the others add theirs.
//
// Bound: 3 float operations (scale product, conversion, fma) per output and block of 32; a third more goes to
// the instructions' sums, which share the float pipe's way to the registers (docs/lab/cuda.md).
#include <type_traits>

#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/warpgroup.cuh"

namespace argon::cuda {
namespace {

struct GroupParams {
  MatmulParams m;
  // Not null: blockIdx.z is a segment of K, whose sums go to partial[segment][t][row].
  float* partial;
};

constexpr int kGroupsM = 2, kN = 64;  // warpgroups of 64 rows of W by kN of x, two by two
constexpr int kRows = 64 * kGroupsM, kCols = 2 * kN, kThreads = 256 * kGroupsM;
constexpr int kBlocks = 4;  // of 32 in a stage
constexpr int kStages = 4;
[[maybe_unused]] constexpr int kSums = kN / 2;
constexpr int kUnit = 2;  // a segment's part of K begins at words of two scales

struct Stage {
  // Chunk c of 16 bytes at c ^ (row & 7).
  alignas(1024) uint8_t x[kCols][128];
  alignas(1024) uint8_t w[kRows][128];
  alignas(16) float d[kBlocks][kCols];
  alignas(16) uint16_t scales[kRows][kBlocks];
};
struct Memory {
  Stage stages[kStages];
};

// Where the step of column `col` lies, so that a lane's four of two eights are neighbours.
[[maybe_unused]] __device__ inline int step_place(int col) {
  return (col & ~15) | (col & 6) << 1 | (col & 8) >> 2 | (col & 1);
}

__global__ void __launch_bounds__(kThreads, 1) matmul_groups_kernel(GroupParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const MatmulParams& a = params.m;
  const int t0 = static_cast<int>(blockIdx.y) * kCols, count = min(static_cast<int>(a.T) - t0, kCols);
  const int m0 = static_cast<int>(blockIdx.x) * kRows, n = static_cast<int>(a.w.cols / 32);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id();
  const int part = static_cast<int>(blockIdx.z);
  const bool split = params.partial != nullptr;
  const int begin = split ? segment_start(n, part) : 0, end = split ? segment_start(n, part + 1) : n;
  const int group = __shfl_sync(kAllLanes, tid / 128, 0);
  const int group_row = group % kGroupsM * 64, group_col = group / kGroupsM * kN;
  const int row = group_row + warp_id() % 4 * 16 + lane / 4;

  // This thread's part of the copies: chunk tid % 8 of rows tid/8 + 64*j, step tid % 4 of row tid/4 of x, and
  // two scales of a row of W. Rows that are not there: another's.
  constexpr int kMine = kCols * 8 / kThreads, kNext = kThreads / 8;
  static_assert(kRows == kCols && kCols * kBlocks == kThreads);
  uint32_t x_from[kMine];
#pragma unroll
  for (int j = 0; j < kMine; ++j) {
    x_from[j] = static_cast<uint32_t>(t0 + min(tid / 8 + j * kNext, count - 1)) * static_cast<uint32_t>(n);
  }
  const auto d_from = static_cast<uint32_t>(t0 + min(tid / 4, count - 1)) * static_cast<uint32_t>(n);
  const uint8_t* codes = a.w.data + int64_t{m0 + tid / 8} * n * 32 + tid % 8 * 16;
  const uint8_t* scales = a.w.data + a.w.scales + (int64_t{m0 + tid / 2} * n + tid % 2 * 2) * 2;
  const int left = static_cast<int>(a.w.rows) - m0 - tid / 8;
  const bool has_scales = tid < kRows * 2 && m0 + tid / 2 < a.w.rows;
  const auto fetch = [&](int b0, int slot) {
    auto& s = memory.stages[slot];
    const int c = tid % 8, to = tid / 8;
    const bool inside = b0 + c / 2 < end;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      copy_async<16>(&s.x[to + j * kNext][(c ^ (to & 7)) * 16],
                     a.q.codes + (uint64_t{x_from[j]} + static_cast<uint32_t>(b0)) * 32 + c * 16, inside);
      copy_async<16>(&s.w[to + j * kNext][(c ^ (to & 7)) * 16], codes + (int64_t{j * kNext} * n + b0) * 32,
                     inside && j * kNext < left);
    }
    copy_async<4>(&s.d[tid % 4][step_place(tid / 4)],
                  a.q.d + uint64_t{d_from} + static_cast<uint32_t>(b0 + tid % 4), b0 + tid % 4 < end);
    copy_async<4>(&s.scales[tid / 2 % kRows][tid % 2 * 2], scales + int64_t{b0} * 2,
                  has_scales && b0 + tid % 2 * 2 < end);
  };

  float acc[kSums], total[kSums];
  int c[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) acc[i] = total[i] = -0.0f;  // -0 + x is x, whatever x is
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s * kBlocks < end) fetch(begin + s * kBlocks, s);
    asm volatile("cp.async.commit_group;");
  }
  int segment = split ? part : 0, segment_begin = begin, slot = 0;

  for (int b0 = begin; b0 < end; b0 += kBlocks) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    fence_for_instructions();
    __syncthreads();
    const int ahead = b0 + (kStages - 1) * kBlocks;
    if (ahead < end) fetch(ahead, slot == 0 ? kStages - 1 : slot - 1);
    asm volatile("cp.async.commit_group;");
    const Stage& s = memory.stages[slot];
    slot = slot + 1 == kStages ? 0 : slot + 1;
    if (group_col >= count) continue;
    const uint64_t x_at = rows_of_128(&s.x[group_col][0]), w_at = rows_of_128(&s.w[group_row][0]);
    const int blocks = min(kBlocks, end - b0);
    const uint2 halves[2] = {*reinterpret_cast<const uint2*>(s.scales[row]),
                             *reinterpret_cast<const uint2*>(s.scales[row + 8])};

    // One block of 32; the first of a segment closes the one before.
    const auto block = [&](int k, auto is_first) {
      constexpr bool kFirst = decltype(is_first)::value;
      hold<kSums>(c);
      begin_sums();
      group_dot(c, w_at + static_cast<uint64_t>(k * 2), x_at + static_cast<uint64_t>(k * 2));
      commit_sums();
      float sw[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t word = k < 2 ? halves[i].x : halves[i].y;
        sw[i] = __half2float(__ushort_as_half(static_cast<uint16_t>(k % 2 == 0 ? word : word >> 16)));
      }
      const float* steps = &s.d[k][group_col + lane % 4 * 4];
      wait_for_sums();
      hold<kSums>(c);
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const float4 v = *reinterpret_cast<const float4*>(steps + j / 2 * 16);
        const float d[2] = {j % 2 == 0 ? v.x : v.z, j % 2 == 0 ? v.y : v.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& y = acc[j * 4 + i];
          if (kFirst) total[j * 4 + i] = total[j * 4 + i] + y;
          y = __fmaf_rn(sw[i / 2] * d[i % 2], static_cast<float>(c[j * 4 + i]), kFirst ? 0.0f : y);
        }
      }
    };
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      if (k >= blocks) break;
      if (b0 + k == segment_begin) {
        segment_begin = segment_start(n, ++segment);
        block(k, std::true_type{});
      } else {
        block(k, std::false_type{});
      }
    }
  }
  asm volatile("cp.async.wait_all;");
  float* y = split ? params.partial + int64_t{part} * a.T * a.w.rows : a.y;
  const int64_t ldy = split ? a.w.rows : a.ldy;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int t = group_col + i / 4 * 8 + lane % 4 * 2 + i % 2, m = m0 + row + i / 2 % 2 * 8;
    if (t < count && m < a.w.rows) y[int64_t{t0 + t} * ldy + m] = total[i] + acc[i];
  }
#endif
}

// A thread per output: the segments' sums from the left.
__global__ void join_group_parts(GroupParams params) {
  const MatmulParams& a = params.m;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, size = a.T * a.w.rows;
  if (i >= size) return;
  float y = params.partial[i];
#pragma unroll
  for (int s = 1; s < 8; ++s) y = y + params.partial[s * size + i];
  a.y[i / a.w.rows * a.ldy + i % a.w.rows] = y;
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

}  // namespace

bool matmul_groups(Queue& queue, const MatmulParams& a) {
  static const bool there = [] {
    cudaFuncAttributes f{};
    const bool known = cudaFuncGetAttributes(&f, has_groups) == cudaSuccess && f.sharedSizeBytes > 0;
    const bool raised =
        known && cudaFuncSetAttribute(matmul_groups_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      sizeof(Memory)) == cudaSuccess;
    cudaGetLastError();
    return raised;
  }();
  const int64_t n = a.w.cols / 32;
  // Eight segments with blocks in each; words of two scales; row numbers times n in 32 bits.
  if (!there || a.w.type != WeightType::kQ8_0 || !a.w.split || a.expert_begin != nullptr || a.T <= 64 ||
      n < 8 || n % 2 != 0 || a.T * n >= int64_t{1} << 32 || a.w.rows >= int64_t{1} << 31) {
    return false;
  }
  GroupParams p{a, nullptr};
  // Few tiles and a long K: one part of K to a block. A part begins at whole words of scales.
  const int64_t tiles = int64_t{blocks_for(a.w.rows, kRows)} * blocks_for(a.T, kCols);
  const bool few = tiles * 4 <= queue.processors() || (tiles * 2 <= queue.processors() && n >= 160);
  if (few && n % (8 * kUnit) == 0) {
    p.partial = static_cast<float*>(queue.scratch(static_cast<size_t>(8 * a.T * a.w.rows) * sizeof(float)));
    if (p.partial == nullptr) return true;
  }
  queue.launch(matmul_groups_kernel,
               dim3(blocks_for(a.w.rows, kRows), blocks_for(a.T, kCols), p.partial != nullptr ? 8 : 1),
               kThreads, sizeof(Memory), p);
  if (p.partial != nullptr) queue.launch(join_group_parts, blocks_for(a.T * a.w.rows, 256), 256, 0, p);
  return true;
}

}  // namespace argon::cuda
