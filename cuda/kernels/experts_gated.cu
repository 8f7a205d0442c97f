// Gate and up products of the experts of a pass, their activation and its quantisation in one kernel: for
// Q4_K and experts with few rows of x each, where reading W decides.
//
// A block takes one expert's 128 rows of each matrix; its warps work without meeting, each on 16 rows of
// both, so that the lane that has a value of g has the u that belongs to it. The rows of x lie in shared
// memory for all of K, in the order of the fragments of m16n8k32. W comes from global memory into registers:
// the integer dot of a block of 32 is the same in any order, so lane q of four takes bytes 8q to 8q+7 of a
// row's 32 bytes of nibbles (two blocks), and x is laid out likewise. A register is refilled with what is 256
// values ahead as soon as it was used, so that 4.6 KB a warp are always under way.
//
// Bound: bytes of W; 5 float operations per output and block of 32.
#include "cuda/kernels.h"
#include "cuda/kernels/experts.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = 16 * kWarps;
constexpr int kCols = 16;

struct GatedParams {
  WeightView gate, up;
  ops::QuantizedRows x, out;
  const int32_t* expert_begin;
  const int32_t* slot_row;
};

// Offsets in shared memory: x, then {d, d, sum, sum} of two rows a block of 32, then each warp's {gate step,
// minimum, up step, minimum} of 8 blocks and 16 rows.
struct Layout {
  int row, pairs, steps, bytes;
  __host__ __device__ explicit Layout(int n)
      : row(n * 32 + 64),
        pairs(kCols * row),
        steps(pairs + n * kPairStride),
        bytes(steps + kWarps * 8 * 16 * 16) {}
  static constexpr int kPairStride = (kCols / 2 + 1) * 16;
};

struct Words {
  uint2 low, high;  // of rows lane/4 and lane/4 + 8
};

#ifndef ARGON_HINT
#define ARGON_HINT 1
#endif
__device__ inline uint2 load_codes8(const uint8_t* p) {
  uint2 v;
  asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
__device__ inline uint4 load_head(const uint8_t* p) {
  uint4 v;
#if ARGON_HINT
  asm volatile("ld.global.nc.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
#else
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
#endif
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__global__ void __launch_bounds__(kThreads, 2) gated_kernel(GatedParams p) {
  extern __shared__ __align__(256) uint8_t shared[];
  const int n = static_cast<int>(p.gate.cols / 32), lane = lane_id(), warp = warp_id();
  const Layout at(n);
  const int expert = static_cast<int>(blockIdx.y);
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  const int m0 = static_cast<int>(blockIdx.x) * kRows + warp * 16, g = lane / 4, q = lane % 4;
  const int64_t row_bytes = p.gate.row_bytes;
  const uint8_t* w_gate = p.gate.data + expert * p.gate.matrix_bytes + m0 * row_bytes;
  const uint8_t* w_up = p.up.data + expert * p.up.matrix_bytes + m0 * row_bytes;
  auto* steps = reinterpret_cast<float4*>(shared + at.steps) + warp * 8 * 16;

  for (int t0 = first_slot; t0 < stop; t0 += kCols) {
    const int count = min(stop - t0, kCols);
    // The first 256 values of W are on their way before x is.
    const uint8_t* from[2] = {w_gate + g * row_bytes + 16 + q * 8, w_up + g * row_bytes + 16 + q * 8};
    const uint8_t* head_from = (lane < 16 ? w_gate : w_up) + lane % 16 * row_bytes;
    Words w[2][4];
    uint4 head = load_head(head_from);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        w[i][j].low = load_codes8(from[i] + 32 * j);
        w[i][j].high = load_codes8(from[i] + 8 * row_bytes + 32 * j);
      }
    }
    for (int col = warp; col < count; col += kWarps) {
      const int64_t row = p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col;
      const auto* codes = reinterpret_cast<const uint2*>(p.x.codes + row * n * 32);
      for (int i = lane; i < n * 4; i += 32) {
        const int b = i / 4;
        *reinterpret_cast<uint2*>(shared + col * at.row + b / 2 * 64 + i % 4 * 16 + b % 2 * 8) = codes[i];
      }
      const auto* sums = reinterpret_cast<const uint32_t*>(p.x.sums) + row * n;
      for (int b = lane; b < n; b += 32) {
        auto* pair = reinterpret_cast<float*>(shared + at.pairs + b * Layout::kPairStride + col / 2 * 16) + col % 2;
        pair[0] = p.x.d[row * n + b];
        const auto both = static_cast<int>(sums[b]);
        pair[2] = static_cast<float>(static_cast<int16_t>(both) + (both >> 16));
      }
    }
    __syncthreads();

    const auto tile = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      float acc[2][kEights][4], total[2][kEights][4];
#pragma unroll
      for (int i = 0; i < 8 * kEights; ++i) {
        acc[i / 4 / kEights][i / 4 % kEights][i % 4] = 0.0f;
        // -0 + x is x, whatever x is.
        total[i / 4 / kEights][i / 4 % kEights][i % 4] = -0.0f;
      }
      const int turns = n / 8, segment = n / 8;
      int left = segment;
      const uint8_t* x_at = shared + g * at.row + q * 16;
      const uint8_t* pair_at = shared + at.pairs + q * 16;
      for (int turn = 0; turn < turns; ++turn) {
        __syncwarp();
        const Q4_KHead now_head(head);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          reinterpret_cast<float2*>(steps + i * 16 + lane % 16)[lane / 16] =
              now_head.step(now_head.scales[i / 4], now_head.minima[i / 4], i % 4);
        }
        __syncwarp();
        const int ahead = turn + 1 < turns ? 144 : 0;  // the last turn reads itself again
        from[0] += ahead, from[1] += ahead, head_from += ahead;
        head = load_head(head_from);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (left == 0) {
            left = segment;
#pragma unroll
            for (int i = 0; i < 8 * kEights; ++i) {
              float& y = acc[i / 4 / kEights][i / 4 % kEights][i % 4];
              float& sum = total[i / 4 / kEights][i / 4 % kEights][i % 4];
              sum = sum + y;
              y = 0.0f;
            }
          }
          left -= 2;
          uint4 x[kEights];
#pragma unroll
          for (int e = 0; e < kEights; ++e) {
            x[e] = *reinterpret_cast<const uint4*>(x_at + e * 8 * at.row + j * 64);
          }
          Words now[2] = {w[0][j], w[1][j]};
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            uint32_t a[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              a[i][0] = now[i].low.x >> 4 * half & 0x0f0f0f0fu;
              a[i][1] = now[i].high.x >> 4 * half & 0x0f0f0f0fu;
              a[i][2] = now[i].low.y >> 4 * half & 0x0f0f0f0fu;
              a[i][3] = now[i].high.y >> 4 * half & 0x0f0f0f0fu;
            }
            if (half == 1) {
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                w[i][j].low = load_codes8(from[i] + 32 * j);
                w[i][j].high = load_codes8(from[i] + 8 * row_bytes + 32 * j);
              }
            }
            const float4 s0 = steps[(2 * j + half) * 16 + g], s1 = steps[(2 * j + half) * 16 + g + 8];
            const float sw[2][2] = {{s0.x, s1.x}, {s0.z, s1.z}}, mw[2][2] = {{s0.y, s1.y}, {s0.w, s1.w}};
#pragma unroll
            for (int e = 0; e < kEights; ++e) {
              const float4 d = *reinterpret_cast<const float4*>(
                  pair_at + (2 * j + half) * Layout::kPairStride + e * 4 * 16);
              const uint32_t b[2] = {half == 0 ? x[e].x : x[e].z, half == 0 ? x[e].y : x[e].w};
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                float dots[4];
                dot_k32(a[i], b, dots);
                add_min(acc[i][e], dots, sw[i], mw[i], d);
              }
            }
          }
        }
        x_at += 256;
        pair_at += 8 * Layout::kPairStride;
      }
      __syncthreads();
      // silu(g)*u by column: rows of 128 and a gap.
      auto* h = reinterpret_cast<float*>(shared);
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float gate = total[0][e][i] + acc[0][e][i], up = total[1][e][i] + acc[1][e][i];
          h[(e * 8 + q * 2 + i % 2) * (kRows + 4) + warp * 16 + g + i / 2 * 8] = silu32(gate) * up;
        }
      }
    };
    count <= 8 ? tile(std::integral_constant<int, 1>{}) : tile(std::integral_constant<int, 2>{});
    __syncthreads();
    const int64_t blocks = p.gate.rows / 32;
    for (int col = warp; col < count; col += kWarps) {
      const float4 v = load4(reinterpret_cast<const float*>(shared) + col * (kRows + 4) + lane * 4);
      quantize128(v, p.out, (t0 + col) * blocks + blockIdx.x * (kRows / 32));
    }
    __syncthreads();
  }
}

// The same for up to 48 rows of x an expert: a block takes a whole expert, a warp 8 rows of each matrix at a
// time, which are the 16 rows of its instructions, so that a lane again has g and u of the same place. Four
// warps make the 32 values that are quantised together.
constexpr int kWideWarps = 16, kWideCols = 48;

struct WideLayout {
  int row, pairs, steps, h, bytes;
  __host__ __device__ explicit WideLayout(int n)
      : row(n * 32 + 64),
        pairs(kWideCols * row),
        steps(pairs + n * kPairStride),
        h(steps + kWideWarps * 8 * 16 * 8),
        bytes(h + kWideWarps / 4 * kWideCols * kHRow * 4) {}
  static constexpr int kPairStride = (kWideCols / 2 + 1) * 16, kHRow = 36;
};

__global__ void __launch_bounds__(32 * kWideWarps, 1) wide_kernel(GatedParams p) {
  extern __shared__ __align__(256) uint8_t shared[];
  const int n = static_cast<int>(p.gate.cols / 32), lane = lane_id(), warp = warp_id();
  const WideLayout at(n);
  const int expert = static_cast<int>(blockIdx.x), units = static_cast<int>(p.gate.rows / 8);
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  const int g = lane / 4, q = lane % 4;
  const int64_t row_bytes = p.gate.row_bytes;
  const uint8_t* w_gate = p.gate.data + expert * p.gate.matrix_bytes;
  const uint8_t* w_up = p.up.data + expert * p.up.matrix_bytes;
  auto* steps = reinterpret_cast<float2*>(shared + at.steps) + warp * 8 * 16;
  float* h = reinterpret_cast<float*>(shared + at.h) + warp / 4 * kWideCols * WideLayout::kHRow;

  for (int t0 = first_slot; t0 < stop; t0 += kWideCols) {
    const int count = min(stop - t0, kWideCols);
    for (int col = warp; col < count; col += kWideWarps) {
      const int64_t row = p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col;
      const auto* codes = reinterpret_cast<const uint2*>(p.x.codes + row * n * 32);
#pragma unroll 4
      for (int i = lane; i < n * 4; i += 32) {
        const int b = i / 4;
        *reinterpret_cast<uint2*>(shared + col * at.row + b / 2 * 64 + i % 4 * 16 + b % 2 * 8) = codes[i];
      }
      const auto* sums = reinterpret_cast<const uint32_t*>(p.x.sums) + row * n;
      for (int b = lane; b < n; b += 32) {
        auto* pair = reinterpret_cast<float*>(shared + at.pairs + b * WideLayout::kPairStride + col / 2 * 16) + col % 2;
        pair[0] = p.x.d[row * n + b];
        const auto both = static_cast<int>(sums[b]);
        pair[2] = static_cast<float>(static_cast<int16_t>(both) + (both >> 16));
      }
    }
    __syncthreads();

    const auto tiles = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      for (int unit = warp; unit < units; unit += kWideWarps) {
        const uint8_t* from[2] = {w_gate + (unit * 8 + g) * row_bytes + 16 + q * 8,
                                  w_up + (unit * 8 + g) * row_bytes + 16 + q * 8};
        const uint8_t* head_from = (lane % 16 < 8 ? w_gate : w_up) + (unit * 8 + lane % 8) * row_bytes;
        uint2 w[2][4];
        uint4 head = load_head(head_from);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) w[i][j] = load_codes8(from[i] + 32 * j);
        }
        float acc[kEights][4], total[kEights][4];
#pragma unroll
        for (int i = 0; i < 4 * kEights; ++i) acc[i / 4][i % 4] = 0.0f, total[i / 4][i % 4] = -0.0f;
        const int turns = n / 8, segment = n / 8;
        int left = segment;
        const uint8_t* x_at = shared + g * at.row + q * 16;
        const uint8_t* pair_at = shared + at.pairs + q * 16;
        for (int turn = 0; turn < turns; ++turn) {
          __syncwarp();
          // Lanes 0-15: blocks 0 to 3 of the rows, the others 4 to 7.
          const Q4_KHead now(head);
          const uint32_t scales = lane < 16 ? now.scales[0] : now.scales[1],
                         minima = lane < 16 ? now.minima[0] : now.minima[1];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            steps[(lane / 16 * 4 + i) * 16 + lane % 16] = now.step(scales, minima, i);
          }
          __syncwarp();
          const int ahead = turn + 1 < turns ? 144 : 0;  // the last turn reads itself again
          from[0] += ahead, from[1] += ahead, head_from += ahead;
          head = load_head(head_from);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if (left == 0) {
              left = segment;
#pragma unroll
              for (int i = 0; i < 4 * kEights; ++i) {
                total[i / 4][i % 4] = total[i / 4][i % 4] + acc[i / 4][i % 4];
                acc[i / 4][i % 4] = 0.0f;
              }
            }
            left -= 2;
            uint32_t a[2][4];
            float sw[2][2], mw[2][2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              a[half][0] = w[0][j].x >> 4 * half & 0x0f0f0f0fu;
              a[half][1] = w[1][j].x >> 4 * half & 0x0f0f0f0fu;
              a[half][2] = w[0][j].y >> 4 * half & 0x0f0f0f0fu;
              a[half][3] = w[1][j].y >> 4 * half & 0x0f0f0f0fu;
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const float2 s = steps[(2 * j + half) * 16 + g + 8 * i];
                sw[half][i] = s.x, mw[half][i] = s.y;
              }
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) w[i][j] = load_codes8(from[i] + 32 * j);
#pragma unroll
            for (int e = 0; e < kEights; ++e) {
              const uint4 x = *reinterpret_cast<const uint4*>(x_at + e * 8 * at.row + j * 64);
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                const float4 d = *reinterpret_cast<const float4*>(
                    pair_at + (2 * j + half) * WideLayout::kPairStride + e * 4 * 16);
                const uint32_t b[2] = {half == 0 ? x.x : x.z, half == 0 ? x.y : x.w};
                float dots[4];
                dot_k32(a[half], b, dots);
                add_min(acc[e], dots, sw[half], mw[half], d);
              }
            }
          }
          x_at += 256;
          pair_at += 8 * WideLayout::kPairStride;
        }
        // The group of four warps: everyone has read what was there before.
        const int group = warp / 4 + 1;
        asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float gate = total[e][i] + acc[e][i], up = total[e][i + 2] + acc[e][i + 2];
            h[(e * 8 + q * 2 + i) * WideLayout::kHRow + warp % 4 * 8 + g] = silu32(gate) * up;
          }
        }
        asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
        for (int col = warp % 4; col < count; col += 4) {
          quantize32(h[col * WideLayout::kHRow + lane], p.out, (t0 + col) * (p.gate.rows / 32) + unit / 4);
        }
      }
    };
    switch ((count + 7) / 8) {
      case 1:
      case 2:
        tiles(std::integral_constant<int, 2>{});
        break;
      case 3:
        tiles(std::integral_constant<int, 3>{});
        break;
      case 4:
        tiles(std::integral_constant<int, 4>{});
        break;
      case 5:
        tiles(std::integral_constant<int, 5>{});
        break;
      default:
        tiles(std::integral_constant<int, 6>{});
    }
    __syncthreads();
  }
}

}  // namespace

#ifdef ARGON_MICRO
int g_gated_variant = 0;
#endif
bool gated_experts(Queue& queue, const ops::MatmulGroupedArgs& gate, const WeightView& w_gate,
                   const ops::MatmulGroupedArgs& up, const WeightView& w_up, const ops::SwigluArgs& act) {
  const int64_t n = w_gate.cols / 32;
  if (w_gate.type != WeightType::kQ4_K || w_up.type != WeightType::kQ4_K || w_gate.cols != w_up.cols ||
      w_gate.rows != w_up.rows || w_gate.row_bytes != w_up.row_bytes || !aligned(w_gate.data) ||
      !aligned(w_up.data) || w_gate.matrix_bytes % 16 != 0 || w_up.matrix_bytes % 16 != 0 ||
      w_gate.rows % kRows != 0 || n % 16 != 0 || act.out_q.codes == nullptr) {
    return false;
  }
#ifdef ARGON_MICRO
  if (g_gated_variant > 1) return false;
  if (g_gated_variant == 1) {
    const WideLayout at(static_cast<int>(n));
    cudaFuncSetAttribute(wide_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, at.bytes);
    const GatedParams p{w_gate, w_up, gate.q, act.out_q, gate.expert_begin, gate.slot_row};
    queue.launch(wide_kernel, dim3(static_cast<unsigned>(gate.w.experts)), 32 * kWideWarps, static_cast<size_t>(at.bytes), p);
    return true;
  }
#endif
  const Layout at(static_cast<int>(n));
  if (at.bytes > most_shared() / 2) return false;
  static size_t raised = 0;
  if (static_cast<size_t>(at.bytes) > raised) {
    raised = static_cast<size_t>(at.bytes);
    cudaFuncSetAttribute(gated_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, at.bytes);
  }
  const GatedParams p{w_gate, w_up, gate.q, act.out_q, gate.expert_begin, gate.slot_row};
  queue.launch(gated_kernel,
               dim3(static_cast<unsigned>(w_gate.rows / kRows), static_cast<unsigned>(gate.w.experts)), kThreads,
               static_cast<size_t>(at.bytes), p);
  return true;
}

}  // namespace argon::cuda
