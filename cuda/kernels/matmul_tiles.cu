// Matrix products with many rows of x for the types that most files consist of, on the int8 tensor cores: one
// m16n8k32 instruction is the exact integer dot of a block of 32 for 16 rows of W and 8 rows of x; its steps
// are then added in float32 in block order.
//
// A warp computes 32 rows of W by 64 rows of x, so that a fragment of either is used often, or by up to 48
// for experts and few rows, which leaves registers for three blocks a processor; a block is 128 by 128 or 48.
// Codes, scales and steps come into shared memory as they lie in the file, by asynchronous copies two or
// three stages ahead; 4-bit codes are unpacked where a warp reads its fragments, which happens once per code
// as no other warp has those rows. The integer sum starts from the bits of 1.5*2^23, which makes it, read as
// a float, that number plus the dot: one subtraction converts it. Minima need the sums of the codes of x,
// which come with the steps.
//
// Bound: 3 float operations (scale product, conversion, fma; 5 with a minimum) per output and block of 32.
#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/int8_tiles.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kWarpsM = 4, kRows = 32 * kWarpsM;
constexpr int kMagic = 0x4b400000;  // 12582912.0f
constexpr float kMagicFloat = 12582912.0f;

struct TileParams {
  MatmulParams m;
  // Not null: blockIdx.z is a segment of K, whose sums go to partial[segment][t][row].
  float* partial;
};

__device__ inline void dot_k32(const uint32_t* a, const uint32_t* b, int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(kMagic));
}
// kMagic plus both 16-bit halves.
__device__ inline int sum_halves(uint32_t halves) {
  return __dp2a_lo(static_cast<int>(halves), 0x0101, kMagic);
}
__device__ inline float as_float(int sum) { return __int_as_float(sum) - kMagicFloat; }

// The types: how a stage of kBlocks blocks of 32 of the block's rows lies in shared memory, comes there
// (`row(i)` gives the address of row i's first block of the stage, `left` blocks are left), and becomes the
// fragments of rows base + lane/4 + 8*i. A stage may begin at multiples of kUnit blocks.
struct TileQ8_0 {
  static constexpr int kBlocks = 4, kUnit = 2;
  static constexpr bool kMin = false;
  struct Stage {
    uint8_t codes[kRows][128];  // chunk c of 16 bytes at c ^ (row & 7)
    uint16_t scales[kRows][kBlocks];
  };
  struct Steps {};
  template <int kThreads>
  __device__ static void fetch(Stage& s, const WeightView& w, const uint8_t* data, int m0, int b0, int n) {
    const int last = static_cast<int>(w.rows) - 1, tid = static_cast<int>(threadIdx.x), c = tid % 8;
    const bool inside = b0 + c / 2 < n;
#pragma unroll
    for (int j = 0; j < kRows * 8 / kThreads; ++j) {
      const int row = tid / 8 + j * (kThreads / 8);
      copy_async<16>(&s.codes[row][(c ^ (row & 7)) * 16],
                     data + (int64_t{min(m0 + row, last)} * n + b0) * 32 + c * 16, inside);
    }
    fetch_scales<kThreads, kBlocks>(s.scales, w, data, m0, b0, n);
  }
  template <int kThreads, int kPerRow>
  __device__ static void fetch_scales(uint16_t (&to)[kRows][kPerRow], const WeightView& w,
                                      const uint8_t* data, int m0, int b0, int n) {
    const int last = static_cast<int>(w.rows) - 1, tid = static_cast<int>(threadIdx.x), c = tid % 2;
#pragma unroll
    for (int j = 0; j < kRows * 2 / kThreads; ++j) {
      const int row = tid / 2 + j * (kThreads / 2);
      copy_async<4>(&to[row][2 * c], data + w.scales + (int64_t{min(m0 + row, last)} * n + b0 + 2 * c) * 2,
                    b0 + 2 * c < n);
    }
  }
  __device__ static void prepare(const Stage&, Steps&) {}
  __device__ static void load(const Stage& s, const Steps&, int k, uint32_t (&w)[2][4], float (&sw)[4],
                              float (&)[4]) {
    const int lane = lane_id(), base = warp_id() % kWarpsM * 32, row = base + lane % 16;
    const unsigned at =
        shared_at(&s.codes[row][(lane / 16 ^ (row & 7)) * 16]) ^ static_cast<unsigned>(k * 32);
    load_matrices(at, w[0]);
    load_matrices(at + 16 * 128, w[1]);
    load_scales(&s.scales[base + lane / 4][k], sw);
  }
  __device__ static void load_scales(const uint16_t* p, float (&sw)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sw[i] = __half2float(__ushort_as_half(p[i * 8 * kBlocks]));
  }
};

// 16 bytes of nibbles a block: value i is the low nibble of byte i, value 16+i the high one.
template <bool kTable>
struct TileNibbles {
  static constexpr int kBlocks = 4, kUnit = 2;
  static constexpr bool kMin = false;
  struct Stage {
    uint8_t codes[kRows][16 * kBlocks + 16];  // 8 rows of one chunk fall on different banks
    uint16_t scales[kRows][kBlocks];
  };
  struct Steps {};
  template <int kThreads>
  __device__ static void fetch(Stage& s, const WeightView& w, const uint8_t* data, int m0, int b0, int n) {
    const int last = static_cast<int>(w.rows) - 1, tid = static_cast<int>(threadIdx.x), c = tid % kBlocks;
#pragma unroll
    for (int j = 0; j < kRows * kBlocks / kThreads; ++j) {
      const int row = tid / kBlocks + j * (kThreads / kBlocks);
      copy_async<16>(&s.codes[row][c * 16], data + (int64_t{min(m0 + row, last)} * n + b0 + c) * 16,
                     b0 + c < n);
    }
    TileQ8_0::fetch_scales<kThreads>(s.scales, w, data, m0, b0, n);
  }
  __device__ static void prepare(const Stage&, Steps&) {}
  __device__ static void load(const Stage& s, const Steps&, int k, uint32_t (&w)[2][4], float (&sw)[4],
                              float (&)[4]) {
    const int lane = lane_id(), base = warp_id() % kWarpsM * 32 + lane / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t v = *reinterpret_cast<const uint32_t*>(&s.codes[base + 8 * i][k * 16 + lane % 4 * 4]);
      unpack(v, &w[i / 2][i % 2], &w[i / 2][2 + i % 2]);
    }
    TileQ8_0::load_scales(&s.scales[base][k], sw);
  }
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
// chunk on different banks. A lane works out the steps of one of its warp's rows.
struct TileQ4_K {
  static constexpr int kBlocks = 8, kUnit = 8;
  static constexpr bool kMin = true;
  struct Stage {
    uint8_t rows[kRows][144];
  };
  struct Steps {
    float2 of[kBlocks][kRows];  // scale, minimum
  };
  template <int kThreads>
  __device__ static void fetch(Stage& s, const WeightView& w, const uint8_t* data, int m0, int b0, int) {
    const int last = static_cast<int>(w.rows) - 1, tid = static_cast<int>(threadIdx.x);
    // A thread copies one row's chunks (128 threads) or every other one (256).
    constexpr int kShare = kThreads / kRows;
    const int row = tid / kShare;
    const uint8_t* from = data + int64_t{min(m0 + row, last)} * w.row_bytes + b0 / 8 * 144;
#pragma unroll
    for (int j = 0; j < 9; j += kShare) {
      const int c = j + tid % kShare;
      copy_async<16>(&s.rows[row][min(c, 8) * 16], from + c * 16, c < 9);
    }
  }
  __device__ static void prepare(const Stage& s, Steps& steps) {
    const int row = warp_id() % kWarpsM * 32 + lane_id();
    const int4 head = *reinterpret_cast<const int4*>(s.rows[row]);
    const float2 d = __half22float2(*reinterpret_cast<const __half2*>(&head.x));
    const auto y = static_cast<uint32_t>(head.y), z = static_cast<uint32_t>(head.z);
    const auto low = static_cast<uint32_t>(head.w);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int byte = 8 * (i % 4);
      const uint32_t sc = i < 4 ? y >> byte & 63 : (low >> byte & 15) | (y >> (byte + 2) & 48);
      const uint32_t mn = i < 4 ? z >> byte & 63 : (low >> (byte + 4) & 15) | (z >> (byte + 2) & 48);
      steps.of[i][row] = make_float2(d.x * static_cast<float>(sc), d.y * static_cast<float>(mn));
    }
    __syncwarp();
  }
  __device__ static void load(const Stage& s, const Steps& steps, int k, uint32_t (&w)[2][4], float (&sw)[4],
                              float (&mw)[4]) {
    const int lane = lane_id(), base = warp_id() % kWarpsM * 32 + lane / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint8_t* p = &s.rows[base + 8 * i][16 + k / 2 * 32 + lane % 4 * 4];
      w[i / 2][i % 2] = *reinterpret_cast<const uint32_t*>(p) >> (k & 1) * 4 & 0x0f0f0f0fu;
      w[i / 2][2 + i % 2] = *reinterpret_cast<const uint32_t*>(p + 16) >> (k & 1) * 4 & 0x0f0f0f0fu;
      const float2 step = steps.of[k][base + 8 * i];
      sw[i] = step.x;
      mw[i] = step.y;
    }
  }
};

template <class Type, int kWarpsN>
struct Shared {
  static constexpr int kCols = kWarpsN == 1 ? 48 : 128;  // of x
  struct Stage {
    alignas(256) uint8_t x[kCols][32 * Type::kBlocks];  // chunk c of 16 bytes at c ^ (row & 7)
    alignas(16) float d[Type::kBlocks][kCols];
    // Of types with a minimum: both halves' sums of the codes of x.
    alignas(16) uint32_t sums[Type::kMin ? Type::kBlocks : 1][Type::kMin ? kCols : 4];
    alignas(256) typename Type::Stage w;
  };
  static constexpr size_t kThreePerProcessor = 75 * 1024;
  static constexpr size_t kRest = kWarpsN * sizeof(typename Type::Steps) + 256;
  static constexpr int kStages = kWarpsN == 2 || 3 * sizeof(Stage) + kRest <= kThreePerProcessor ? 3 : 2;
  Stage stages[kStages];
  typename Type::Steps steps[kWarpsN];  // of each row of warps
};

// Dense: blockIdx.y is a tile of rows of x. Grouped: blockIdx.y is an expert, whose slots are taken tile by
// tile. kRagged: tiles need not be full, columns in eights are left out (code for each number of them).
template <class Type, int kWarpsN, bool kRagged>
__global__ void __launch_bounds__(32 * kWarpsM * kWarpsN, kWarpsN == 1 ? 3 : 1)
    matmul_tiles(TileParams params) {
  using Memory = Shared<Type, kWarpsN>;
  constexpr int kThreads = 32 * kWarpsM * kWarpsN, kCols = Memory::kCols, kBlocks = Type::kBlocks;
  constexpr int kStages = Memory::kStages, kChunks = 2 * kBlocks;
  extern __shared__ __align__(256) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const MatmulParams& a = params.m;
  const bool grouped = a.expert_begin != nullptr;
  const int first_slot = grouped ? a.expert_begin[blockIdx.y] : static_cast<int>(blockIdx.y) * kCols;
  const int stop = grouped ? a.expert_begin[blockIdx.y + 1] : min(first_slot + kCols, static_cast<int>(a.T));
  const uint8_t* data = a.w.data + (grouped ? blockIdx.y * a.w.matrix_bytes : 0);
  const int m0 = static_cast<int>(blockIdx.x) * kRows, n = static_cast<int>(a.w.cols / 32);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id();
  const int part = static_cast<int>(blockIdx.z);
  const bool split = params.partial != nullptr;
  const int begin = split ? segment_start(n, part) : 0, end = split ? segment_start(n, part + 1) : n;
  const int warp_col = warp_id() / kWarpsM * 64;

  for (int t0 = first_slot; t0 < stop; t0 += kCols) {
    const int count = min(stop - t0, kCols);
    // The rows of x that this thread copies chunks of.
    constexpr int kMine = kCols * kChunks / kThreads, kSteps = (kCols * kBlocks + kThreads - 1) / kThreads;
    uint32_t from[kMine];
    const auto row_of = [&](int col) {
      const int t = t0 + min(col, count - 1);
      return static_cast<uint32_t>(a.slot_row != nullptr ? a.slot_row[t] : t) * static_cast<uint32_t>(n);
    };
#pragma unroll
    for (int j = 0; j < kMine; ++j) from[j] = row_of(tid / kChunks + j * (kThreads / kChunks));
    uint32_t step_from[kSteps];
#pragma unroll
    for (int j = 0; j < kSteps; ++j) step_from[j] = row_of(tid / kBlocks + j * (kThreads / kBlocks));
    const auto fetch = [&](int b0, int slot) {
      auto& s = memory.stages[slot];
      const int c = tid % kChunks;
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        const int col = tid / kChunks + j * (kThreads / kChunks);
        copy_async<16>(&s.x[col][(c ^ (col & 7)) * 16],
                       a.q.codes + (uint64_t{from[j]} + static_cast<uint32_t>(b0)) * 32 + c * 16,
                       b0 + c / 2 < end && (!kRagged || col < count));
      }
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int b = tid % kBlocks;
        const int col = tid / kBlocks + j * (kThreads / kBlocks);
        const uint64_t at = uint64_t{step_from[j]} + static_cast<uint32_t>(b0 + b);
        const bool wanted = b0 + b < end && (kCols * kBlocks % kThreads == 0 || col < kCols);
        copy_async<4>(&s.d[b][col], a.q.d + at, wanted);
        if constexpr (Type::kMin) copy_async<4>(&s.sums[b][col], a.q.sums + 2 * at, wanted);
      }
      Type::template fetch<kThreads>(s.w, a.w, data, m0, b0, n);
    };

    // The tile with its first kEights * 8 columns of each warp, whose code has no conditions in its blocks.
    const auto tile = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      float acc[2][kEights][4], total[2][kEights][4];
#pragma unroll
      for (int i = 0; i < 8 * kEights; ++i) {
        // -0 + x is x, whatever x is.
        acc[i / 4 / kEights][i / 4 % kEights][i % 4] = total[i / 4 / kEights][i / 4 % kEights][i % 4] = -0.0f;
      }
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s) {
        if (begin + s * kBlocks < end) fetch(begin + s * kBlocks, s);
        asm volatile("cp.async.commit_group;");
      }
      int segment = split ? part : 0, segment_begin = begin, slot = 0;

      for (int b0 = begin; b0 < end; b0 += kBlocks) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
        __syncthreads();
        const int ahead = b0 + (kStages - 1) * kBlocks;
        if (ahead < end) fetch(ahead, slot == 0 ? kStages - 1 : slot - 1);
        asm volatile("cp.async.commit_group;");
        const auto& s = memory.stages[slot];
        slot = slot + 1 == kStages ? 0 : slot + 1;
        if (warp_col >= count) continue;
        auto& steps = memory.steps[warp_id() / kWarpsM];
        Type::prepare(s.w, steps);
        const int col0 = warp_col + lane / 16 * 8 + lane % 8;
        const unsigned x_at = shared_at(&s.x[col0][(lane / 8 % 2 ^ (col0 & 7)) * 16]);
        const int blocks = min(kBlocks, end - b0);

        // One block of 32; the first of a segment closes the one before.
        const auto block = [&](int k, auto is_first) {
          constexpr bool kFirst = decltype(is_first)::value;
          uint32_t w[2][4], x[2][4];
          float sw[4], mw[4];
          int c[2][2][4];
          const unsigned at = x_at ^ static_cast<unsigned>(k * 32);
          load_matrices(at, x[0]);
          Type::load(s.w, steps, k, w, sw, mw);
          const auto dots = [&](int j) {
            const uint32_t* b = x[j / 2 % 2] + j % 2 * 2;
            dot_k32(w[0], b, c[j % 2][0]);
            dot_k32(w[1], b, c[j % 2][1]);
          };
          dots(0);
#pragma unroll
          for (int j = 0; j < kEights; ++j) {
            if (j % 2 == 0 && j + 2 < kEights)
              load_matrices(at + static_cast<unsigned>((j + 2) * 8 * 32 * kBlocks), x[j / 2 % 2 ^ 1]);
            if (j + 1 < kEights) dots(j + 1);
            const int col = warp_col + j * 8 + lane % 4 * 2;
            const float2 d = *reinterpret_cast<const float2*>(&s.d[k][col]);
            [[maybe_unused]] float sum[2];
            if constexpr (Type::kMin) {
              const uint2 halves = *reinterpret_cast<const uint2*>(&s.sums[k][col]);
              sum[0] = as_float(sum_halves(halves.x)), sum[1] = as_float(sum_halves(halves.y));
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              const float di = i % 2 == 0 ? d.x : d.y, dot = as_float(c[j % 2][i / 4][i % 4]);
              float& y = acc[i / 4][j][i % 4];
              if (kFirst) total[i / 4][j][i % 4] = total[i / 4][j][i % 4] + y;
              y = __fmaf_rn(sw[i / 2] * di, dot, kFirst ? 0.0f : y);
              if constexpr (Type::kMin) y = __fmaf_rn(-(mw[i / 2] * di), sum[i % 2], y);
            }
          }
        };
#pragma unroll 1
        for (int k = 0; k < blocks; ++k) {
          if (b0 + k == segment_begin) {
            segment_begin = segment_start(n, ++segment);
            block(k, std::true_type{});
          } else {
            block(k, std::false_type{});
          }
        }
      }
      asm volatile("cp.async.wait_all;");
      __syncthreads();
      float* y = split ? params.partial + int64_t{part} * a.T * a.w.rows : a.y;
      const int64_t ldy = split ? a.w.rows : a.ldy;
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int t = warp_col + j * 8 + lane % 4 * 2 + i % 2;
          const int m = m0 + warp_id() % kWarpsM * 32 + lane / 4 + i / 2 * 8;
          if (t < count && m < a.w.rows) {
            y[int64_t{t0 + t} * ldy + m] = total[i / 4][j][i % 4] + acc[i / 4][j][i % 4];
          }
        }
      }
    };
    if constexpr (kRagged) {
      switch ((count + 7) / 8) {
        case 1:
        case 2:
          tile(std::integral_constant<int, 2>{});
          break;
        case 3:
          tile(std::integral_constant<int, 3>{});
          break;
        case 4:
          tile(std::integral_constant<int, 4>{});
          break;
        case 5:
          tile(std::integral_constant<int, 5>{});
          break;
        default:
          tile(std::integral_constant<int, 6>{});
      }
    } else {
      tile(std::integral_constant<int, 8>{});
    }
  }
}

// A thread per output: the segments' sums from the left.
__global__ void join_parts(TileParams params) {
  const MatmulParams& a = params.m;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, size = a.T * a.w.rows;
  if (i >= size) return;
  float y = params.partial[i];
#pragma unroll
  for (int s = 1; s < 8; ++s) y = y + params.partial[s * size + i];
  a.y[i / a.w.rows * a.ldy + i % a.w.rows] = y;
}

template <class Type, int kWarpsN, bool kRagged>
void launch(Queue& queue, const TileParams& p) {
  using Memory = Shared<Type, kWarpsN>;
  static const cudaError_t raised = cudaFuncSetAttribute(
      matmul_tiles<Type, kWarpsN, kRagged>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  const MatmulParams& a = p.m;
  const unsigned y =
      a.expert_begin != nullptr ? static_cast<unsigned>(a.experts) : blocks_for(a.T, Memory::kCols);
  queue.launch(matmul_tiles<Type, kWarpsN, kRagged>,
               dim3(blocks_for(a.w.rows, kRows), y, p.partial != nullptr ? 8 : 1), 32 * kWarpsM * kWarpsN,
               sizeof(Memory), p);
}

template <class Type>
bool launch_tiles(Queue& queue, const MatmulParams& a) {
  TileParams p{a, nullptr};
  if (sizeof(Shared<Type, 1>) > most_shared()) return false;
  const bool wide = sizeof(Shared<Type, 2>) <= most_shared();
  if (a.expert_begin != nullptr || a.T <= 64) return launch<Type, 1, true>(queue, p), true;
  // Few tiles and a long K: one part of K to a block. A part begins at whole words of scales.
  const int64_t n = a.w.cols / 32, tiles = int64_t{blocks_for(a.w.rows, kRows)} * blocks_for(a.T, 128);
  const bool few = tiles * 4 <= queue.processors() || (tiles * 2 <= queue.processors() && n >= 160);
  if (few && n % (8 * Type::kUnit) == 0) {
    p.partial = static_cast<float*>(queue.scratch(static_cast<size_t>(8 * a.T * a.w.rows) * sizeof(float)));
    if (p.partial == nullptr) return true;
  }
  wide ? launch<Type, 2, false>(queue, p) : launch<Type, 1, true>(queue, p);
  if (p.partial != nullptr) queue.launch(join_parts, blocks_for(a.T * a.w.rows, 256), 256, 0, p);
  return true;
}

}  // namespace

bool matmul_tiles(Queue& queue, const MatmulParams& a) {
  const int64_t n = a.w.cols / 32;
  // Eight segments with blocks in each; words of two scales; row numbers times n in 32 bits.
  if (n < 8 || n % 2 != 0 || a.T * n >= int64_t{1} << 32 || a.w.rows >= int64_t{1} << 31) return false;
  switch (a.w.type) {
    case WeightType::kQ8_0:
      return a.w.split && launch_tiles<TileQ8_0>(queue, a);
    case WeightType::kQ4_0:
      return a.w.split && launch_tiles<TileNibbles<false>>(queue, a);
    case WeightType::kIQ4_NL:
      return a.w.split && launch_tiles<TileNibbles<true>>(queue, a);
    case WeightType::kQ4_K:
      return reinterpret_cast<uintptr_t>(a.w.data) % 16 == 0 && launch_tiles<TileQ4_K>(queue, a);
    default:
      return false;
  }
}

}  // namespace argon::cuda
