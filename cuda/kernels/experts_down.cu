// Down products of the experts of a pass: for IQ4_NL with K = 640, a row being 320 bytes of codes and 40 of
// scales, so that 16 rows of W lie in two pieces.
//
// A block takes a part of one expert's rows; its warps work without meeting, each on slabs of 16 rows, the
// next of which is under way by asynchronous copies while one is computed. The rows of x lie in shared memory
// in the order of the fragments of m16n8k32: one 16-byte read gives a lane two blocks of a row.
//
// Bound: bytes of W and y; 3 float operations per output and block of 32, 26 operations a warp to unpack 16
// rows of a block.
#include "cuda/kernels.h"
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/experts.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kBlocks = 20;  // of 32 in a row
constexpr int kRowStride = kBlocks * 16 + 16;  // 8 rows of one chunk fall on different banks
constexpr int kScaleBytes = 16 * kBlocks * 2;

struct DownParams {
  WeightView w;
  ops::QuantizedRows x;
  const int32_t* expert_begin;
  const int32_t* slot_row;
  float* y;
};

struct Slab {
  alignas(16) uint8_t codes[16 * kRowStride];
  alignas(16) uint8_t scales[kScaleBytes];
};

// kTiles slabs of 16 rows to a warp at a time.
template <int kCols, int kWarps, int kTiles>
struct Shared {
  // Two blocks' fragments of a row of x: 64 bytes, pair p of row c at p ^ (c & 1).
  alignas(128) uint8_t x[kCols][kBlocks / 2][64];
  alignas(16) float d[kBlocks / 2][kCols / 2 + 1][4];  // of two blocks and two rows of x
  Slab slabs[kWarps][2][kTiles];
};

// 16 rows of W from `codes` and `scales` on.
__device__ inline void fetch(Slab& s, const uint8_t* codes, const uint8_t* scales) {
  const int lane = lane_id();
#pragma unroll
  for (int j = 0; j < kBlocks / 4; ++j) {
    const int c = lane + 32 * j;
    copy_async<16>(s.codes + (c + c / kBlocks) * 16, codes + c * 16, true);
    copy_async<16>(s.codes + (c + c / kBlocks) * 16 + 8 * kRowStride, codes + c * 16 + 8 * kBlocks * 16, true);
  }
  copy_async<16>(s.scales + lane * 16, scales + lane * 16, true);
  copy_async<16>(s.scales + (lane % 8 + 32) * 16, scales + (lane % 8 + 32) * 16, lane < 8);
}

// kIq4Values as words, kept in registers: an instruction takes one constant.
struct Table {
  uint32_t t[4];
  __device__ Table() {
    asm volatile("mov.b32 %0, 0xbfad9881;" : "=r"(t[0]));
    asm volatile("mov.b32 %0, 0xf6eaddcf;" : "=r"(t[1]));
    asm volatile("mov.b32 %0, 0x26190d01;" : "=r"(t[2]));
    asm volatile("mov.b32 %0, 0x71594535;" : "=r"(t[3]));
  }
};

// Bytes of a and b chosen by the low 4 nibbles of `by`, which are at most 7 (__byte_perm would make sure).
__device__ inline uint32_t choose(uint32_t a, uint32_t b, uint32_t by) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(by));
  return r;
}

// The values of the nibbles of v, from the lowest on.
__device__ inline void unpack_iq4(const Table& t, uint32_t v, uint32_t* first, uint32_t* second) {
  const uint32_t index = v & 0x77777777u, half = 0x32103210u | (v & 0x88888888u) >> 1;
  *first = choose(choose(t.t[0], t.t[1], index), choose(t.t[2], t.t[3], index), half);
  *second = choose(choose(t.t[0], t.t[1], index >> 16), choose(t.t[2], t.t[3], index >> 16), half >> 16);
}

__host__ __device__ constexpr bool starts_segment(int block) {
  for (int i = 1; i < 8; ++i) {
    if (block == kBlocks * i / 8) return true;
  }
  return false;
}

template <int kCols, int kWarps, int kPerProcessor, int kTiles, int kMode>
__global__ void __launch_bounds__(32 * kWarps, kPerProcessor) down_kernel(DownParams p) {
  using Memory = Shared<kCols, kWarps, kTiles>;
  extern __shared__ __align__(256) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const int lane = lane_id(), warp = warp_id(), g = lane / 4, q = lane % 4;
  const int expert = static_cast<int>(blockIdx.y), slabs = static_cast<int>(p.w.rows / (16 * kTiles));
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  const Table table;
  const uint8_t* data = p.w.data + expert * p.w.matrix_bytes;
  const int first = static_cast<int>(blockIdx.x) * kWarps + warp, step = static_cast<int>(gridDim.x) * kWarps;

  for (int t0 = first_slot, count; t0 < stop; t0 += count) {
    count = next_rows<kCols>(stop - t0);
    const auto bring = [&](int slab, int which) {
      if (slab < slabs) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const int64_t at = int64_t{slab} * kTiles + i;
          fetch(memory.slabs[warp][which][i], data + at * 16 * kBlocks * 16, data + p.w.scales + at * kScaleBytes);
        }
      }
      asm volatile("cp.async.commit_group;");
    };
    bring(first, 0);
    for (int col = warp; col < count; col += kWarps) {
      const int64_t row = p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col;
      const auto* codes = reinterpret_cast<const uint32_t*>(p.x.codes + row * kBlocks * 32);
#pragma unroll
      for (int j = 0; j < (kBlocks * 4 + 31) / 32; ++j) {
        // In the order of unpacked nibbles: value k, 16 + k, k + 1, 16 + k + 1.
        const int i = lane + 32 * j, b = i / 4, c = i % 4;
        if (i < kBlocks * 4) {
          const uint32_t low = codes[b * 8 + c], high = codes[b * 8 + c + 4];
          *reinterpret_cast<uint2*>(&memory.x[col][b / 2 ^ (col & 1)][c * 16 + b % 2 * 8]) =
              make_uint2(choose(low, high, 0x5140), choose(low, high, 0x7362));
        }
      }
      if (lane < kBlocks) memory.d[lane / 2][col / 2][lane % 2 * 2 + col % 2] = p.x.d[row * kBlocks + lane];
    }
    __syncthreads();

    const auto tile = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      const uint8_t* x_at[2] = {&memory.x[g][g & 1][q * 16], &memory.x[g][(g & 1) ^ 1][q * 16] - 64};
      int which = 0;
      for (int slab = first; slab < slabs; slab += step, which ^= 1) {
        bring(slab + step, which ^ 1);
        asm volatile("cp.async.wait_group 1;");
        __syncwarp();
        const Slab* s = memory.slabs[warp][which];
        const unsigned w_at = shared_at(s->codes + (lane % 8 + lane / 8 % 2 * 8) * kRowStride + lane / 16 * 16);
        float acc[kTiles][kEights][4], total[kTiles][kEights][4];
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
#pragma unroll
          for (int i = 0; i < 4 * kEights; ++i) acc[m][i / 4][i % 4] = 0.0f, total[m][i / 4][i % 4] = -0.0f;
        }
        uint2 scales[kTiles][2];
#pragma unroll
        for (int pair = 0; pair < kBlocks / 2; ++pair) {
          uint32_t a[kTiles][2][4];
          float sw[kTiles][2][2];
#pragma unroll
          for (int m = 0; m < kTiles; ++m) {
            if (pair % 2 == 0) {
#pragma unroll
              for (int i = 0; i < 2; ++i)
                scales[m][i] = *reinterpret_cast<const uint2*>(s[m].scales + (g + 8 * i) * kBlocks * 2 + pair * 4);
            }
            uint32_t packed[4];
            load_matrices(w_at + static_cast<unsigned>(m * sizeof(Slab) + pair * 32), packed);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              unpack_iq4(table, packed[2 * half], &a[m][half][0], &a[m][half][2]);
              unpack_iq4(table, packed[2 * half + 1], &a[m][half][1], &a[m][half][3]);
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const uint32_t two = pair % 2 == 0 ? scales[m][i].x : scales[m][i].y;
                const __half2 h = *reinterpret_cast<const __half2*>(&two);
                sw[m][half][i] = half == 0 ? __low2float(h) : __high2float(h);
              }
            }
          }
#pragma unroll
          for (int e = 0; e < kEights; ++e) {
            const uint4 x = *reinterpret_cast<const uint4*>(x_at[pair % 2] + (e * 8 * kBlocks / 2 + pair) * 64);
            const float4 d = *reinterpret_cast<const float4*>(memory.d[pair][e * 4 + q]);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const uint32_t xb[2] = {half == 0 ? x.x : x.z, half == 0 ? x.y : x.w};
#pragma unroll
              for (int m = 0; m < kTiles; ++m) {
                if (starts_segment(2 * pair + half)) {
#pragma unroll
                  for (int i = 0; i < 4; ++i) total[m][e][i] = total[m][e][i] + acc[m][e][i], acc[m][e][i] = 0.0f;
                }
                float dots[4];
                half < kMode ? dot_k32<true>(a[m][half], xb, dots) : dot_k32<false>(a[m][half], xb, dots);
                add_step(acc[m][e], dots, sw[m][half], half == 0 ? d.x : d.z, half == 0 ? d.y : d.w);
              }
            }
          }
        }
        __syncwarp();
        float* y = p.y + t0 * p.w.rows + slab * kTiles * 16 + g;
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int t = e * 8 + q * 2 + i;
            if (t < count) {
#pragma unroll
              for (int m = 0; m < kTiles; ++m) {
                y[t * p.w.rows + m * 16] = total[m][e][i] + acc[m][e][i];
                y[t * p.w.rows + m * 16 + 8] = total[m][e][i + 2] + acc[m][e][i + 2];
              }
            }
          }
        }
      }
      asm volatile("cp.async.wait_all;");
    };
    const int eights = (count + 7) / 8;
    if constexpr (kCols == 24) {
      switch (eights) {
        case 1:
          tile(std::integral_constant<int, 1>{});
          break;
        case 2:
          tile(std::integral_constant<int, 2>{});
          break;
        default:
          tile(std::integral_constant<int, 3>{});
      }
    } else {
      switch (eights) {
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
    }
    __syncthreads();
  }
}

template <int kCols, int kWarps, int kPerProcessor, int kTiles, int kMode>
bool launch_down(Queue& queue, const DownParams& p, int64_t experts, unsigned parts) {
  constexpr auto kernel = down_kernel<kCols, kWarps, kPerProcessor, kTiles, kMode>;
  constexpr size_t bytes = sizeof(Shared<kCols, kWarps, kTiles>);
  static const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(kernel, dim3(parts, static_cast<unsigned>(experts)), 32 * kWarps, bytes, p);
  return true;
}

}  // namespace

#ifdef ARGON_MICRO
int g_down_variant = 0;
#endif
bool down_experts(Queue& queue, const MatmulParams& a) {
  if (a.w.type != WeightType::kIQ4_NL || !a.w.split || a.w.cols != kBlocks * 32 || a.w.rows % 16 != 0) return false;
#ifndef ARGON_MICRO
  if (a.T > 16 * a.experts) return false;
#endif
  const DownParams p{a.w, a.q, a.expert_begin, a.slot_row, a.y};
#ifdef ARGON_MICRO
  switch (g_down_variant) {
    case 1: return launch_down<24, 8, 2, 1, 1>(queue, p, a.experts, 4);
    case 2: return launch_down<24, 8, 2, 1, 2>(queue, p, a.experts, 4);
    case 3: return launch_down<24, 8, 2, 1, 1>(queue, p, a.experts, 2);
    case 4: return launch_down<48, 12, 1, 1, 1>(queue, p, a.experts, 2);
    case 5: return launch_down<24, 8, 2, 1, 1>(queue, p, a.experts, 5);
    case 6: return false;
    case 7: return false;
  }
#endif
  return launch_down<24, 8, 2, 1, 0>(queue, p, a.experts, 4);
}

}  // namespace argon::cuda
