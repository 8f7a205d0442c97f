// Matrix products with many rows of x for every type, on the int8 tensor cores; matmul_tiles.cu is faster for
// the types and sizes that it takes. One m16n8k32 instruction is the exact integer dot of a block of 32 for
// 16 rows of W and 8 rows of x; its steps are then added in float32 in block order.
//
// A block of 8 warps computes 128 rows of W by 64 rows of x; a warp 16 by 64, so that a tile with few rows of
// x skips the rest without idle warps. Per turn two blocks of 32 (64 values) are decoded to int8 in shared
// memory, one block per thread, while the next turn's weights are on their way to registers. The integer sum
// starts from the bits of 1.5*2^23, which makes it, read as a float, that number plus the dot: one
// subtraction converts it.
//
// Bound: 3 float operations (scale product, conversion, fma; 5 with a minimum) per output and block of 32.
#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kRows = 128, kCols = 64, kThreads = 256;
constexpr int kMagic = 0x4b400000;  // 12582912.0f
constexpr float kMagicFloat = 12582912.0f;

// A thread's block of 32 on its way: codes and steps.
template <class Format>
struct OneStep {
  static constexpr int kSteps = 1;
  static constexpr bool kMin = Format::kMin;
  int4 q[2];
  float sw[1], mw[1];
  __device__ void fetch(const WeightView& w, const uint8_t* data, int64_t m, int n, int b) {
    q[0] = Format::codes(w, data, m, n, b, 0);
    q[1] = Format::codes(w, data, m, n, b, 1);
    const Scale s = Format::scale(w, data, m, n, b);
    sw[0] = s.sw;
    mw[0] = s.mw;
  }
};

template <int kStepCount, bool kHasMin>
struct AnyFormat {
  static constexpr int kSteps = kStepCount;
  static constexpr bool kMin = kHasMin;
  int4 q[2];
  float sw[kSteps], mw[kSteps];
  __device__ void fetch(const WeightView& w, const uint8_t* data, int64_t m, int, int b) {
    __align__(16) int8_t codes[32];
    Steps s;
    unpack_view(w, data, m, b, codes, &s);
    q[0] = reinterpret_cast<const int4*>(codes)[0];
    q[1] = reinterpret_cast<const int4*>(codes)[1];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) sw[i] = s.sw[i], mw[i] = s.mw[i];
  }
};

template <int kSteps>
struct Stage {
  uint8_t w[kRows * 64];
  uint8_t x[kCols * 64];
  float sw[2][kSteps][kRows], mw[2][kSteps][kRows];
  float d[2][kCols], sum[2][kSteps][kCols];
};

// Byte offset of 16-byte chunk c of a 64-byte row: eight rows of one chunk fall on different banks.
__device__ inline int chunk_at(int row, int c) { return row * 64 + ((c ^ (row >> 1 & 3)) * 16); }

__device__ inline void load_matrices(const uint8_t* p, uint32_t* r) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

__device__ inline void dot_k32(const uint32_t* a, const uint32_t* b, int* c) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(kMagic));
}

__device__ inline void dot_k16(uint32_t a0, uint32_t a1, uint32_t b, int* c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
               : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
               : "r"(a0), "r"(a1), "r"(b), "r"(kMagic));
}

// Blocks of 32 of one turn that are on their way to a stage.
template <class Block>
struct InFlight {
  Block w;
  int4 x;
  float d;
  int sums;

  // Thread i: block i%2 of row i/2 of W; chunk i%4 of row i/4 of x; and, if i < 128, d and sums of block i%2
  // of row i/2 of x.
  __device__ void fetch(const MatmulParams& a, const uint8_t* data, int64_t m0, const int* rows, int n,
                        int b0) {
    const int i = static_cast<int>(threadIdx.x);
    const int b = b0 + i % 2 < n ? b0 + i % 2 : n - 1;
    const int64_t m = m0 + i / 2 < a.w.rows ? m0 + i / 2 : a.w.rows - 1;
    w.fetch(a.w, data, m, n, b);
    const int xb = b0 + i % 4 / 2 < n ? b0 + i % 4 / 2 : n - 1;
    x = __ldg(reinterpret_cast<const int4*>(a.q.codes + (int64_t{rows[i / 4]} * n + xb) * 32 + i % 2 * 16));
    if (i < 2 * kCols) {
      const int64_t at = int64_t{rows[i / 2]} * n + b;
      d = __ldg(a.q.d + at);
      if (Block::kMin) sums = __ldg(reinterpret_cast<const int*>(a.q.sums) + at);
    }
  }
  __device__ void store(Stage<Block::kSteps>& s) const {
    const int i = static_cast<int>(threadIdx.x), row = i / 2, k = i % 2;
    *reinterpret_cast<int4*>(s.w + chunk_at(row, 2 * k)) = w.q[0];
    *reinterpret_cast<int4*>(s.w + chunk_at(row, 2 * k + 1)) = w.q[1];
#pragma unroll
    for (int step = 0; step < Block::kSteps; ++step) {
      s.sw[k][step][row] = w.sw[step];
      if (Block::kMin) s.mw[k][step][row] = w.mw[step];
    }
    *reinterpret_cast<int4*>(s.x + chunk_at(i / 4, i % 4)) = x;
    if (i < 2 * kCols) {
      s.d[k][row] = d;
      if (Block::kMin) {
        const int low = static_cast<int16_t>(sums), high = sums >> 16;
        if (Block::kSteps == 1) {
          s.sum[k][0][row] = static_cast<float>(low + high);
        } else {
          s.sum[k][0][row] = static_cast<float>(low);
          s.sum[k][Block::kSteps - 1][row] = static_cast<float>(high);
        }
      }
    }
  }
};

// Dense: blockIdx.y is a tile of rows of x. Grouped: blockIdx.y is an expert, whose slots are taken tile by
// tile.
template <class Block>
__global__ void __launch_bounds__(kThreads, 2) matmul_prompt_kernel(MatmulParams a) {
  __shared__ __align__(128) Stage<Block::kSteps> stages[2];
  __shared__ int rows[kCols];
  const bool grouped = a.expert_begin != nullptr;
  const int first_slot = grouped ? a.expert_begin[blockIdx.y] : static_cast<int>(blockIdx.y) * kCols;
  const int stop = grouped                    ? a.expert_begin[blockIdx.y + 1]
                   : first_slot + kCols < a.T ? first_slot + kCols
                                              : static_cast<int>(a.T);
  const uint8_t* data = a.w.data + (grouped ? blockIdx.y * a.w.matrix_bytes : 0);
  const int64_t m0 = int64_t{blockIdx.x} * kRows;
  const int n = static_cast<int>(a.w.cols / 32), lane = lane_id(), warp = warp_id();
  const int tid = static_cast<int>(threadIdx.x);

  for (int t0 = first_slot; t0 < stop; t0 += kCols) {
    const int count = stop - t0 < kCols ? stop - t0 : kCols;
    __syncthreads();
    if (tid < kCols) {
      const int t = t0 + (tid < count ? tid : 0);
      rows[tid] = a.slot_row != nullptr ? a.slot_row[t] : t;
    }
    __syncthreads();
    float acc[8][4] = {}, total[8][4];
    InFlight<Block> next;
    next.fetch(a, data, m0, rows, n, 0);
    int segment = 0, segment_end = segment_start(n, 1);
    const auto close_segments = [&](int b) {
      while (segment < 8 && b == segment_end) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            total[j][i] = segment == 0 ? acc[j][i] : total[j][i] + acc[j][i];
            acc[j][i] = 0.0f;
          }
        }
        ++segment;
        segment_end = segment_start(n, segment + 1);
      }
    };
    int which = 0;
    for (int b0 = 0; b0 < n; b0 += 2, which ^= 1) {
      Stage<Block::kSteps>& s = stages[which];
      next.store(s);
      __syncthreads();
      if (b0 + 2 < n) next.fetch(a, data, m0, rows, n, b0 + 2);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (b0 + k >= n) break;
        close_segments(b0 + k);
        uint32_t wf[4];
        load_matrices(s.w + chunk_at(warp * 16 + lane % 16, 2 * k + lane / 16), wf);
        const int r = warp * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          if (j * 8 >= count) break;
          uint32_t xf[4];
          load_matrices(s.x + chunk_at(j * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2), xf);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int col = (j + h) * 8 + lane % 4 * 2;
            const float2 d = *reinterpret_cast<const float2*>(&s.d[k][col]);
            float* y = acc[j + h];
#pragma unroll
            for (int step = 0; step < Block::kSteps; ++step) {
              int c[4];
              if constexpr (Block::kSteps == 1) {
                dot_k32(wf, xf + 2 * h, c);
              } else {
                dot_k16(wf[2 * step], wf[2 * step + 1], xf[2 * h + step], c);
              }
              const float w0 = s.sw[k][step][r], w1 = s.sw[k][step][r + 8];
              y[0] = __fmaf_rn(w0 * d.x, __int_as_float(c[0]) - kMagicFloat, y[0]);
              y[1] = __fmaf_rn(w0 * d.y, __int_as_float(c[1]) - kMagicFloat, y[1]);
              y[2] = __fmaf_rn(w1 * d.x, __int_as_float(c[2]) - kMagicFloat, y[2]);
              y[3] = __fmaf_rn(w1 * d.y, __int_as_float(c[3]) - kMagicFloat, y[3]);
              if constexpr (Block::kMin) {
                const float l0 = s.mw[k][step][r], l1 = s.mw[k][step][r + 8];
                const float2 sum = *reinterpret_cast<const float2*>(&s.sum[k][step][col]);
                y[0] = __fmaf_rn(-(l0 * d.x), sum.x, y[0]);
                y[1] = __fmaf_rn(-(l0 * d.y), sum.y, y[1]);
                y[2] = __fmaf_rn(-(l1 * d.x), sum.x, y[2]);
                y[3] = __fmaf_rn(-(l1 * d.y), sum.y, y[3]);
              }
            }
          }
        }
      }
    }
    while (segment < 8) close_segments(segment_end);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = j * 8 + lane % 4 * 2 + i % 2;
        const int64_t m = m0 + warp * 16 + lane / 4 + i / 2 * 8;
        if (t < count && m < a.w.rows) a.y[int64_t{t0 + t} * a.ldy + m] = total[j][i];
      }
    }
  }
}

template <class Block>
bool launch_prompt(Queue& queue, const MatmulParams& a) {
  const unsigned y = a.expert_begin != nullptr ? static_cast<unsigned>(a.experts) : blocks_for(a.T, kCols);
  queue.launch(matmul_prompt_kernel<Block>, dim3(blocks_for(a.w.rows, kRows), y), kThreads, 0, a);
  return true;
}

}  // namespace

bool matmul_prompt(Queue& queue, const MatmulParams& a) {
  if (is_plain_float(a.w.type)) return false;
  if (a.expert_begin != nullptr ? 2 * a.T < a.experts : a.T < 16) return false;
  if (matmul_down(queue, a)) return true;
  if (queue.uses_groups() && matmul_groups(queue, &a, 1)) return true;
  if (matmul_tiles(queue, a)) return true;
  switch (a.w.type) {
    case WeightType::kQ8_0:
      if (a.w.split) return launch_prompt<OneStep<SplitQ8_0>>(queue, a);
      break;
    case WeightType::kQ4_0:
      if (a.w.split) return launch_prompt<OneStep<SplitQ4_0>>(queue, a);
      break;
    case WeightType::kIQ4_NL:
      if (a.w.split) return launch_prompt<OneStep<SplitIQ4_NL>>(queue, a);
      break;
    case WeightType::kQ4_K:
      if (reinterpret_cast<uintptr_t>(a.w.data) % 16 == 0) return launch_prompt<OneStep<FileQ4_K>>(queue, a);
      break;
    default:
      break;
  }
  switch (a.w.type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return launch_prompt<AnyFormat<1, true>>(queue, a);
    case WeightType::kQ2_K:
      return launch_prompt<AnyFormat<2, true>>(queue, a);
    case WeightType::kQ3_K:
    case WeightType::kQ6_K:
    case WeightType::kIQ1_M:
    case WeightType::kIQ2_XS:
    case WeightType::kIQ2_S:
    case WeightType::kNVFP4:
      return launch_prompt<AnyFormat<2, false>>(queue, a);
    default:
      return launch_prompt<AnyFormat<1, false>>(queue, a);
  }
}

}  // namespace argon::cuda
