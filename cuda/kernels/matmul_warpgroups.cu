// Matrix products with many rows of x on the warpgroup instructions of compute capability 9.0 (code for
// sm_90a); matmul_tiles.cu serves other devices. One m64nNk32 instruction is the exact integer dot of a block
// of 32 for 64 rows of W and N rows of x; its steps are then added in float32 in block order.
//
// The operands stay in shared memory (4-bit codes of W: unpacked into registers by the warp that owns the
// rows), so that a scheduler has little to do but the float chain; four warps of it take turns, one waiting
// for its sums while the others add theirs. Everything comes into shared memory as it lies in the device's
// memory, by asynchronous copies; types with a minimum find the sums of the codes of x as floats, made by a
// small kernel first.
//
// Bound: 3 float operations (scale product, conversion, fma; 5 with a minimum) per output and block of 32.
#include <type_traits>

#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/warpgroup.cuh"

namespace argon::cuda {
namespace {

struct GroupParams {
  MatmulParams m;
  // Not null: blockIdx.z is a segment of K, whose sums go to partial[segment][t][row].
  float* partial;
  float2* steps;  // [T][K/32]: step and sum of codes of the slots' rows; types with a minimum
};

// The types: how a stage of kBlocks blocks of 32 of the block's kRows rows lies in shared memory and comes
// there (from row m0, block b0; n blocks a row), and what a lane takes of kGroup blocks at a time for its
// rows row and row + 8: fragments of codes, unless the instruction reads them itself, and steps. A stage may
// begin at multiples of kUnit blocks.
struct GroupQ8_0 {
  static constexpr int kBlocks = 4, kGroup = 4, kUnit = 2;
  static constexpr bool kMin = false, kFragments = false;
  template <int kRows>
  struct Stage {
    alignas(1024) uint8_t codes[kRows][128];  // chunk c of 16 bytes at c ^ (row & 7)
    alignas(16) uint16_t scales[kRows][kBlocks];
  };
  template <int kRows>
  struct Steps {};
  // Where this thread's chunks come from; rows that are not there are left as they are.
  template <int kRows, int kThreads>
  struct Source {
    const uint8_t *codes, *scales;
    int left, scale_left, n;  // rows from this thread's first on
    __device__ Source(const WeightView& w, const uint8_t* data, int m0, int n_) : n(n_) {
      const int tid = static_cast<int>(threadIdx.x), row = m0 + tid / 8, scale_row = m0 + tid / 2;
      codes = data + int64_t{row} * n * 32 + tid % 8 * 16;
      scales = data + w.scales + (int64_t{scale_row} * n + tid % 2 * 2) * 2;
      left = static_cast<int>(w.rows) - row;
      scale_left = tid < kRows * 2 ? static_cast<int>(w.rows) - scale_row : 0;
    }
    __device__ void fetch(Stage<kRows>& s, int b0) const {
      const int tid = static_cast<int>(threadIdx.x), c = tid % 8, row = tid / 8;
      const bool inside = b0 + c / 2 < n;
#pragma unroll
      for (int j = 0; j < kRows * 8 / kThreads; ++j) {
        constexpr int kNext = kThreads / 8;
        copy_async<16>(&s.codes[row + j * kNext][(c ^ (row & 7)) * 16],
                       codes + static_cast<int64_t>((j * kNext * n + b0) * 32), inside && j * kNext < left);
      }
      fetch_scales(s.scales, b0);
    }
    __device__ void fetch_scales(uint16_t (&to)[kRows][kBlocks], int b0) const {
      static_assert(kRows * 2 <= kThreads);
      const int tid = static_cast<int>(threadIdx.x);
      copy_async<4>(&to[tid / 2 % kRows][tid % 2 * 2], scales + b0 * 2,
                    scale_left > 0 && b0 + tid % 2 * 2 < n);
    }
  };
  template <int kRows>
  __device__ static void prepare(const Stage<kRows>&, Steps<kRows>&, int) {}
  struct Group {
    uint2 scales[2];
    template <int kRows>
    __device__ void load(const Stage<kRows>& s, const Steps<kRows>&, int row, int) {
      scales[0] = *reinterpret_cast<const uint2*>(s.scales[row]);
      scales[1] = *reinterpret_cast<const uint2*>(s.scales[row + 8]);
    }
    __device__ void steps(int h, float (&sw)[2], float (&)[2]) const {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t word = h < 2 ? scales[i].x : scales[i].y;
        sw[i] = __half2float(__ushort_as_half(static_cast<uint16_t>(h % 2 == 0 ? word : word >> 16)));
      }
    }
  };
};

// 16 bytes of nibbles a block: value i is the low nibble of byte i, value 16+i the high one.
template <bool kTable>
struct GroupNibbles {
  static constexpr int kBlocks = 4, kGroup = 4, kUnit = 2;
  static constexpr bool kMin = false, kFragments = true;
  template <int kRows>
  struct Stage {
    alignas(16) uint8_t codes[kRows][16 * kBlocks + 16];  // 8 rows of one chunk fall on different banks
    alignas(16) uint16_t scales[kRows][kBlocks];
  };
  template <int kRows>
  struct Steps {};
  template <int kRows, int kThreads>
  struct Source : GroupQ8_0::Source<kRows, kThreads> {
    __device__ Source(const WeightView& w, const uint8_t* data, int m0, int n)
        : GroupQ8_0::Source<kRows, kThreads>(w, data, m0, n) {
      const int tid = static_cast<int>(threadIdx.x), row = m0 + tid / kBlocks;
      this->codes = data + (int64_t{row} * n + tid % kBlocks) * 16;
      this->left = static_cast<int>(w.rows) - row;
    }
    __device__ void fetch(Stage<kRows>& s, int b0) const {
      const int tid = static_cast<int>(threadIdx.x), c = tid % kBlocks;
      const bool inside = b0 + c < this->n;
#pragma unroll
      for (int j = 0; j < kRows * kBlocks / kThreads; ++j) {
        constexpr int kNext = kThreads / kBlocks;
        copy_async<16>(&s.codes[tid / kBlocks + j * kNext][c * 16],
                       this->codes + static_cast<int64_t>((j * kNext * this->n + b0) * 16),
                       inside && j * kNext < this->left);
      }
      this->fetch_scales(s.scales, b0);
    }
  };
  template <int kRows>
  __device__ static void prepare(const Stage<kRows>&, Steps<kRows>&, int) {}
  struct Group : GroupQ8_0::Group {
    const uint8_t* at;  // of the lane's part of the first row
    template <int kRows>
    __device__ void load(const Stage<kRows>& s, const Steps<kRows>&, int row, int) {
      scales[0] = *reinterpret_cast<const uint2*>(s.scales[row]);
      scales[1] = *reinterpret_cast<const uint2*>(s.scales[row + 8]);
      at = &s.codes[row][lane_id() % 4 * 4];
    }
    __device__ void fragments(int h, uint32_t (&w)[4]) const {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t v = *reinterpret_cast<const uint32_t*>(at + i * 8 * (16 * kBlocks + 16) + h * 16);
        unpack(v, &w[i], &w[2 + i]);
      }
    }
  };
  __device__ static void unpack(uint32_t v, uint32_t* low, uint32_t* high) {
    if constexpr (kTable) {
      // kIq4Values as words, looked up nibble after nibble: low, high, low, high of two bytes at a time.
      constexpr uint32_t t0 = 0xbfad9881u, t1 = 0xf6eaddcfu, t2 = 0x26190d01u, t3 = 0x71594535u;
      const uint32_t index = v & 0x77777777u, half = 0x32103210u | (v & 0x88888888u) >> 1;
      const uint32_t a = __byte_perm(__byte_perm(t0, t1, index), __byte_perm(t2, t3, index), half);
      const uint32_t b =
          __byte_perm(__byte_perm(t0, t1, index >> 16), __byte_perm(t2, t3, index >> 16), half >> 16);
      *low = __byte_perm(a, b, 0x6420);
      *high = __byte_perm(a, b, 0x7531);
    } else {
      *low = __vsub4(v & 0x0f0f0f0fu, 0x08080808u);
      *high = __vsub4(v >> 4 & 0x0f0f0f0fu, 0x08080808u);
    }
  }
};

// Blocks of 256 as in the file: 16 bytes of scales and minima, 128 of nibbles; 144 bytes put 8 rows of one
// chunk on different banks. Two lanes work out the steps of one of their warp's 16 rows.
struct GroupQ4_K {
  static constexpr int kBlocks = 8, kGroup = 2, kUnit = 8;
  static constexpr bool kMin = true, kFragments = true;
  template <int kRows>
  struct Stage {
    alignas(16) uint8_t rows[kRows][144];
  };
  template <int kRows>
  struct Steps {
    alignas(16) float2 of[kRows][kBlocks + 2];  // scale, minimum; 8 rows on different banks
  };
  // kShare threads copy a row's chunks.
  template <int kRows, int kThreads>
  struct Source {
    static constexpr int kShare = kThreads / kRows;
    const uint8_t* from;
    bool there;
    __device__ Source(const WeightView& w, const uint8_t* data, int m0, int) {
      const int tid = static_cast<int>(threadIdx.x), row = m0 + tid / kShare;
      from = data + int64_t{row} * w.row_bytes + tid % kShare * 16;
      there = row < w.rows;
    }
    __device__ void fetch(Stage<kRows>& s, int b0) const {
      const int tid = static_cast<int>(threadIdx.x), first = tid % kShare;
      uint8_t* to = s.rows[tid / kShare] + first * 16;
      const uint8_t* p = from + b0 * 18;
#pragma unroll
      for (int j = 0; j < 9; j += kShare) copy_async<16>(to + j * 16, p + j * 16, there && j + first < 9);
    }
  };
  // `row` is the first of the warp's.
  template <int kRows>
  __device__ static void prepare(const Stage<kRows>& s, Steps<kRows>& steps, int row) {
    const int lane = lane_id(), mine = row + lane / 2;
    const bool second = lane % 2 != 0;  // blocks 4-7
    const int4 head = *reinterpret_cast<const int4*>(s.rows[mine]);
    const float2 d = __half22float2(*reinterpret_cast<const __half2*>(&head.x));
    const auto y = static_cast<uint32_t>(head.y), z = static_cast<uint32_t>(head.z);
    const auto low = static_cast<uint32_t>(head.w);
    const uint32_t sc = second ? (low & 0x0f0f0f0fu) | (y >> 2 & 0x30303030u) : y & 0x3f3f3f3fu;
    const uint32_t mn = second ? (low >> 4 & 0x0f0f0f0fu) | (z >> 2 & 0x30303030u) : z & 0x3f3f3f3fu;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      steps.of[mine][4 * (lane % 2) + i] =
          make_float2(d.x * static_cast<float>(sc >> 8 * i & 63), d.y * static_cast<float>(mn >> 8 * i & 63));
    }
    __syncwarp();
  }
  struct Group {
    uint32_t words[4];
    float4 both[2];
    template <int kRows>
    __device__ void load(const Stage<kRows>& s, const Steps<kRows>& steps, int row, int k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint8_t* p = &s.rows[row + 8 * i][16 + k / 2 * 32 + lane_id() % 4 * 4];
        words[i] = *reinterpret_cast<const uint32_t*>(p);
        words[2 + i] = *reinterpret_cast<const uint32_t*>(p + 16);
        both[i] = *reinterpret_cast<const float4*>(&steps.of[row + 8 * i][k]);
      }
    }
    __device__ void fragments(int h, uint32_t (&w)[4]) const {
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = words[i] >> 4 * h & 0x0f0f0f0fu;
    }
    __device__ void steps(int h, float (&sw)[2], float (&mw)[2]) const {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        sw[i] = h == 0 ? both[i].x : both[i].z;
        mw[i] = h == 0 ? both[i].y : both[i].w;
      }
    }
  };
};

// A block: kGroupsM x kGroupsN warpgroups of 64 rows of W by kN rows of x each.
template <class T, int kM, int kGroupsNumber, int kColumns>
struct Plan {
  using Type = T;
  static constexpr int kGroupsM = kM, kGroupsN = kGroupsNumber, kN = kColumns;
  static constexpr int kRows = 64 * kGroupsM, kCols = kN * kGroupsN, kThreads = 128 * kGroupsM * kGroupsN;
  static constexpr int kBlocks = Type::kBlocks, kPerProcessor = 512 / kThreads;
  using Step = std::conditional_t<Type::kMin, float2, float>;
  struct Stage {
    // Of kBlocks/4 slabs of 4 blocks each; chunk c of 16 bytes at c ^ (row & 7).
    alignas(1024) uint8_t x[kBlocks / 4][kCols][128];
    alignas(16) Step d[kBlocks][kCols];
    typename Type::template Stage<kRows> w;
  };
  using Steps = typename Type::template Steps<kRows>;
  static constexpr size_t kRoom = 226 * 1024 / kPerProcessor - 1024;
  static constexpr int kMost = static_cast<int>((kRoom - sizeof(Steps)) / sizeof(Stage));
  static constexpr int kStages = kMost < 4 ? kMost : 4;
  static_assert(kStages >= 2);
  struct Shared {
    Stage stages[kStages];
    Steps steps;
  };
};

// Where the step of column `col` lies, so that a lane's four of two eights are neighbours.
template <bool kMin>
__device__ inline int step_place(int col) {
  return kMin ? col : (col & ~15) | (col & 6) << 1 | (col & 8) >> 2 | (col & 1);
}

// Dense: blockIdx.y is a tile of rows of x. Grouped: blockIdx.y is an expert, whose slots are taken tile by
// tile. kRagged: tiles need not be full, columns in eights are left out.
template <class Plan, bool kRagged>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kPerProcessor) matmul_groups(GroupParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Type = typename Plan::Type;
  constexpr int kThreads = Plan::kThreads, kCols = Plan::kCols, kBlocks = Plan::kBlocks, kN = Plan::kN;
  constexpr int kStages = Plan::kStages, kChunks = 2 * kBlocks, kSums = kN / 2;
  extern __shared__ __align__(1024) uint8_t shared[];
  auto& memory = *reinterpret_cast<typename Plan::Shared*>(shared);
  const MatmulParams& a = params.m;
  const bool grouped = a.expert_begin != nullptr;
  const int first_slot = grouped ? a.expert_begin[blockIdx.y] : static_cast<int>(blockIdx.y) * kCols;
  const int stop = grouped ? a.expert_begin[blockIdx.y + 1] : min(first_slot + kCols, static_cast<int>(a.T));
  const uint8_t* data = a.w.data + (grouped ? blockIdx.y * a.w.matrix_bytes : 0);
  const int m0 = static_cast<int>(blockIdx.x) * Plan::kRows, n = static_cast<int>(a.w.cols / 32);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id();
  const int part = static_cast<int>(blockIdx.z);
  const bool split = params.partial != nullptr;
  const int begin = split ? segment_start(n, part) : 0, end = split ? segment_start(n, part + 1) : n;
  const int group = __shfl_sync(kAllLanes, tid / 128, 0);
  const int group_row = group % Plan::kGroupsM * 64, group_col = group / Plan::kGroupsM * kN;
  const int warp_row = group_row + warp_id() % 4 * 16, row = warp_row + lane / 4;

  const typename Type::template Source<Plan::kRows, kThreads> source(a.w, data, m0, n);

  for (int t0 = first_slot; t0 < stop; t0 += kCols) {
    const int count = min(stop - t0, kCols);
    // The rows of x that this thread copies chunks of.
    constexpr int kMine = kCols * kChunks / kThreads, kSteps = kCols * kBlocks / kThreads;
    uint32_t from[kMine], step_from[kSteps];
    const auto row_of = [&](int col) {
      const int t = t0 + min(col, count - 1);
      return static_cast<uint32_t>(a.slot_row != nullptr ? a.slot_row[t] : t) * static_cast<uint32_t>(n);
    };
#pragma unroll
    for (int j = 0; j < kMine; ++j) from[j] = row_of(tid / kChunks + j * (kThreads / kChunks));
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      const int col = tid / kBlocks + j * (kThreads / kBlocks);
      step_from[j] = Type::kMin ? static_cast<uint32_t>(t0 + min(col, count - 1)) * static_cast<uint32_t>(n)
                                : row_of(col);
    }
    const auto fetch = [&](int b0, int slot) {
      auto& s = memory.stages[slot];
      const int c = tid % kChunks;
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        const int col = tid / kChunks + j * (kThreads / kChunks);
        copy_async<16>(&s.x[c / 8][col][(c % 8 ^ (col & 7)) * 16],
                       a.q.codes + (uint64_t{from[j]} + static_cast<uint32_t>(b0)) * 32 + c * 16,
                       b0 + c / 2 < end && (!kRagged || col < count));
      }
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int b = tid % kBlocks, col = tid / kBlocks + j * (kThreads / kBlocks);
        const uint64_t at = uint64_t{step_from[j]} + static_cast<uint32_t>(b0 + b);
        auto* to = &s.d[b][step_place<Type::kMin>(col)];
        if constexpr (Type::kMin) {
          copy_async<8>(to, params.steps + at, b0 + b < end);
        } else {
          copy_async<4>(to, a.q.d + at, b0 + b < end);
        }
      }
      source.fetch(s.w, b0);
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
    const int columns = count - group_col;

    for (int b0 = begin; b0 < end; b0 += kBlocks) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      fence_for_instructions();
      __syncthreads();
      const int ahead = b0 + (kStages - 1) * kBlocks;
      if (ahead < end) fetch(ahead, slot == 0 ? kStages - 1 : slot - 1);
      asm volatile("cp.async.commit_group;");
      const auto& s = memory.stages[slot];
      slot = slot + 1 == kStages ? 0 : slot + 1;
      if (columns <= 0) continue;
      Type::prepare(s.w, memory.steps, warp_row);
      const uint64_t x_at = rows_of_128(&s.x[0][group_col][0]);
      uint64_t w_at = 0;
      if constexpr (!Type::kFragments) w_at = rows_of_128(&s.w.codes[group_row][0]);
      const int blocks = min(kBlocks, end - b0);

      typename Type::Group of;
      // One block of 32, number h of its group; the first of a segment closes the one before.
      const auto block = [&](int k, int h, auto is_first) {
        constexpr bool kFirst = decltype(is_first)::value;
        const uint64_t b = x_at + static_cast<uint64_t>(k / 4 * kCols * 8 + k % 4 * 2);
        hold<kSums>(c);
        if constexpr (Type::kFragments) {
          uint32_t w[4];
          of.fragments(h, w);
          begin_sums();
          GroupDot<kN>::run(c, w, b);
        } else {
          begin_sums();
          GroupDot<kN>::run(c, w_at + static_cast<uint64_t>(k * 2), b);
        }
        commit_sums();
        float sw[2], mw[2];
        of.steps(h, sw, mw);
        const typename Plan::Step* steps = &s.d[k][group_col + lane % 4 * (Type::kMin ? 2 : 4)];
        wait_for_sums();
        hold<kSums>(c);
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
          float d[2];
          [[maybe_unused]] float sum[2];
          if constexpr (Type::kMin) {
            const float4 v = *reinterpret_cast<const float4*>(steps + j * 8);
            d[0] = v.x, sum[0] = v.y, d[1] = v.z, sum[1] = v.w;
          } else {
            const float4 v = *reinterpret_cast<const float4*>(steps + j / 2 * 16);
            d[0] = j % 2 == 0 ? v.x : v.z, d[1] = j % 2 == 0 ? v.y : v.w;
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float di = d[i % 2], dot = static_cast<float>(c[j * 4 + i]);
            float& y = acc[j * 4 + i];
            if (kFirst) total[j * 4 + i] = total[j * 4 + i] + y;
            y = __fmaf_rn(sw[i / 2] * di, dot, kFirst ? 0.0f : y);
            if constexpr (Type::kMin) y = __fmaf_rn(-(mw[i / 2] * di), sum[i % 2], y);
          }
          if (kRagged && j * 8 + 8 >= columns) break;
        }
      };
#pragma unroll 1
      for (int k = 0; k < blocks; k += Type::kGroup) {
        of.load(s.w, memory.steps, row, k);
#pragma unroll
        for (int h = 0; h < Type::kGroup; ++h) {
          if (k + h >= blocks) break;
          if (b0 + k + h == segment_begin) {
            segment_begin = segment_start(n, ++segment);
            block(k + h, h, std::true_type{});
          } else {
            block(k + h, h, std::false_type{});
          }
        }
      }
    }
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    float* y = split ? params.partial + int64_t{part} * a.T * a.w.rows : a.y;
    const int64_t ldy = split ? a.w.rows : a.ldy;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int t = group_col + i / 4 * 8 + lane % 4 * 2 + i % 2, m = m0 + row + i / 2 % 2 * 8;
      if (t < count && m < a.w.rows) y[int64_t{t0 + t} * ldy + m] = total[i] + acc[i];
    }
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

// A thread per slot and block.
__global__ void steps_with_sums(GroupParams p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, n = p.m.w.cols / 32;
  if (i >= p.m.T * n) return;
  const int64_t from = p.m.slot_row != nullptr ? p.m.slot_row[i / n] * n + i % n : i;
  p.steps[i] =
      make_float2(p.m.q.d[from], static_cast<float>(p.m.q.sums[2 * from] + p.m.q.sums[2 * from + 1]));
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

template <class Plan, bool kRagged>
bool launch(Queue& queue, const GroupParams& p) {
  static const cudaError_t raised =
      cudaFuncSetAttribute(matmul_groups<Plan, kRagged>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(typename Plan::Shared));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  const MatmulParams& a = p.m;
  const unsigned y =
      a.expert_begin != nullptr ? static_cast<unsigned>(a.experts) : blocks_for(a.T, Plan::kCols);
  queue.launch(matmul_groups<Plan, kRagged>,
               dim3(blocks_for(a.w.rows, Plan::kRows), y, p.partial != nullptr ? 8 : 1), Plan::kThreads,
               sizeof(typename Plan::Shared), p);
  return true;
}

template <class Type>
bool launch_groups(Queue& queue, const MatmulParams& a) {
  GroupParams p{a, nullptr, nullptr};
  const int64_t n = a.w.cols / 32;
  const bool grouped = a.expert_begin != nullptr;
  // Few tiles and a long K: one part of K to a block. A part begins at whole words of scales.
  const int64_t tiles = int64_t{blocks_for(a.w.rows, 128)} * blocks_for(a.T, 128);
  const bool few = tiles * 4 <= queue.processors() || (tiles * 2 <= queue.processors() && n >= 160);
  const bool split = !grouped && a.T > 64 && few && n % (8 * Type::kUnit) == 0;
  const size_t step_bytes = Type::kMin ? static_cast<size_t>(a.T * n) * sizeof(float2) : 0;
  const size_t part_bytes = split ? static_cast<size_t>(8 * a.T * a.w.rows) * sizeof(float) : 0;
  if (step_bytes + part_bytes > 0) {
    auto* room = static_cast<uint8_t*>(queue.scratch(step_bytes + part_bytes));
    if (room == nullptr) return true;
    if (Type::kMin) {
      p.steps = reinterpret_cast<float2*>(room);
      queue.launch(steps_with_sums, blocks_for(a.T * n, 256), 256, 0, p);
    }
    if (split) p.partial = reinterpret_cast<float*>(room + step_bytes);
  }
  if (grouped || a.T <= 64) return launch<Plan<Type, 2, 1, 64>, true>(queue, p);
  launch<Plan<Type, 2, 2, 64>, false>(queue, p);
  if (split) queue.launch(join_group_parts, blocks_for(a.T * a.w.rows, 256), 256, 0, p);
  return true;
}

}  // namespace

bool matmul_groups(Queue& queue, const MatmulParams& a) {
  static const bool there = [] {
    cudaFuncAttributes f{};
    const bool known = cudaFuncGetAttributes(&f, has_groups) == cudaSuccess;
    cudaGetLastError();
    return known && f.sharedSizeBytes > 0;
  }();
  const int64_t n = a.w.cols / 32;
  // Eight segments with blocks in each; words of two scales; row numbers times n in 32 bits.
  if (!there || n < 8 || n % 2 != 0 || a.T * n >= int64_t{1} << 32 || a.w.rows >= int64_t{1} << 31)
    return false;
  // Other types and the few rows of an expert are faster with matmul_tiles.cu.
  return a.w.type == WeightType::kQ8_0 && a.w.split && a.expert_begin == nullptr && a.T > 64 &&
         launch_groups<GroupQ8_0>(queue, a);
}

}  // namespace argon::cuda
