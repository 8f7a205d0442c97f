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

struct GatedParams {
  WeightView gate, up;
  ops::QuantizedRows x, out;
  const int32_t* expert_begin;
  const int32_t* slot_row;
};

// Offsets in shared memory: x, then {d, d, sum, sum} of two rows a block of 32, then each warp's {gate step,
// minimum, up step, minimum} of 8 blocks and 16 rows, then silu(g)*u.
template <int kCols, int kWarps>
struct Layout {
  int row, pairs, steps, bytes;
  __host__ __device__ explicit Layout(int n)
      : row(n * 32 + 64),
        pairs(kCols * row),
        steps(pairs + n * kPairStride),
        bytes(steps + kWarps * 8 * 16 * 16) {}
  static constexpr int kPairStride = (kCols / 2 + 1) * 16;
};

__device__ inline uint2 load_codes8(const uint8_t* p) {
  uint2 v;
  asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
__device__ inline uint4 load_head(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// A warp's 16 rows of both matrices: the next 256 values on their way.
struct Weights {
  const uint8_t* from[2];  // of gate and up: row lane/4, bytes 8*(lane%4) of the first nibbles
  const uint8_t* head_from;
  int64_t half;  // bytes to the row that is 8 further
  uint2 w[2][4][2];
  uint4 head;  // of row lane%16 of gate or up

  __device__ void start(const uint8_t* gate, const uint8_t* up, int64_t row_bytes) {
    const int lane = lane_id();
    const int64_t at = lane / 4 * row_bytes + 16 + lane % 4 * 8;
    from[0] = gate + at, from[1] = up + at;
    head_from = (lane < 16 ? gate : up) + lane % 16 * row_bytes;
    half = 8 * row_bytes;
    head = load_head(head_from);
#pragma unroll
    for (int j = 0; j < 4; ++j) fetch(j);
  }
  __device__ void fetch(int j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w[i][j][0] = load_codes8(from[i] + 32 * j);
      w[i][j][1] = load_codes8(from[i] + half + 32 * j);
    }
  }
};

// Gate and up of these rows and kEights * 8 rows of x: y[matrix][eight], as the instruction leaves them.
template <int kEights, int kPairStride>
__device__ inline void multiply(Weights& w, float4* steps, const uint8_t* x, int x_row, const uint8_t* pairs, int n,
                                float (&y)[2][kEights][4]) {
  const int lane = lane_id(), g = lane / 4, q = lane % 4;
  float acc[2][kEights][4];
#pragma unroll
  for (int i = 0; i < 8 * kEights; ++i) {
    acc[i / 4 / kEights][i / 4 % kEights][i % 4] = 0.0f;
    // -0 + x is x, whatever x is.
    y[i / 4 / kEights][i / 4 % kEights][i % 4] = -0.0f;
  }
  const int turns = n / 8, segment = n / 8;
  int left = segment;
  const uint8_t* x_at = x + g * x_row + q * 16;
  const uint8_t* pair_at = pairs + q * 16;
  const ByteFloats bytes;
  for (int turn = 0; turn < turns; ++turn) {
    __syncwarp();
    const Q4_KHead head(w.head);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      reinterpret_cast<float2*>(steps + i * 16 + lane % 16)[lane / 16] =
          head.step(bytes, head.scales[i / 4], head.minima[i / 4], i % 4);
    }
    __syncwarp();
    const int ahead = turn + 1 < turns ? 144 : 0;  // the last turn reads itself again
    w.from[0] += ahead, w.from[1] += ahead, w.head_from += ahead;
    w.head = load_head(w.head_from);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (left == 0) {
        left = segment;
#pragma unroll
        for (int i = 0; i < 8 * kEights; ++i) {
          float& part = acc[i / 4 / kEights][i / 4 % kEights][i % 4];
          float& sum = y[i / 4 / kEights][i / 4 % kEights][i % 4];
          sum = sum + part;
          part = 0.0f;
        }
      }
      left -= 2;
      uint32_t a[2][2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            a[half][i][r] = w.w[i][j][r].x >> 4 * half & 0x0f0f0f0fu;
            a[half][i][2 + r] = w.w[i][j][r].y >> 4 * half & 0x0f0f0f0fu;
          }
        }
      }
      w.fetch(j);
      __syncwarp();  // loads are not to be put off
      float4 s[2][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        s[half][0] = steps[(2 * j + half) * 16 + g], s[half][1] = steps[(2 * j + half) * 16 + g + 8];
      }
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        const uint4 xs = *reinterpret_cast<const uint4*>(x_at + e * 8 * x_row + j * 64);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float4 d =
              *reinterpret_cast<const float4*>(pair_at + (2 * j + half) * kPairStride + e * 4 * 16);
          const uint32_t b[2] = {half == 0 ? xs.x : xs.z, half == 0 ? xs.y : xs.w};
          const float sw[2][2] = {{s[half][0].x, s[half][1].x}, {s[half][0].z, s[half][1].z}};
          const float mw[2][2] = {{s[half][0].y, s[half][1].y}, {s[half][0].w, s[half][1].w}};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float dots[4];
            dot_k32(a[half][i], b, dots);
            add_min(acc[i][e], dots, sw[i], mw[i], d);
          }
        }
      }
    }
    x_at += 256;
    pair_at += 8 * kPairStride;
  }
#pragma unroll
  for (int i = 0; i < 8 * kEights; ++i) {
    float& sum = y[i / 4 / kEights][i / 4 % kEights][i % 4];
    sum = sum + acc[i / 4 / kEights][i / 4 % kEights][i % 4];
  }
}

// Row `col` of the tile, by one warp.
template <int kPairStride>
__device__ inline void bring_row(const GatedParams& p, int64_t row, int col, int n, uint8_t* x_row, uint8_t* pairs) {
  const int lane = lane_id();
  const auto* codes = reinterpret_cast<const uint2*>(p.x.codes + row * n * 32);
#pragma unroll 5
  for (int i = lane; i < n * 4; i += 32) {
    const int b = i / 4;
    *reinterpret_cast<uint2*>(x_row + b / 2 * 64 + i % 4 * 16 + b % 2 * 8) = codes[i];
  }
  const auto* sums = reinterpret_cast<const uint32_t*>(p.x.sums) + row * n;
#pragma unroll 3
  for (int b = lane; b < n; b += 32) {
    auto* pair = reinterpret_cast<float*>(pairs + b * kPairStride + col / 2 * 16) + col % 2;
    pair[0] = p.x.d[row * n + b];
    const auto both = static_cast<int>(sums[b]);
    pair[2] = static_cast<float>(static_cast<int16_t>(both) + (both >> 16));
  }
}

// Up to 16 rows of x: two blocks a processor, each of 128 rows of both matrices.
constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = 16 * kWarps, kCols = 16;

__global__ void __launch_bounds__(kThreads, 2) gated_kernel(GatedParams p) {
  using At = Layout<kCols, kWarps>;
  extern __shared__ __align__(256) uint8_t shared[];
  const int n = static_cast<int>(p.gate.cols / 32), lane = lane_id(), warp = warp_id();
  const At at(n);
  const int expert = static_cast<int>(blockIdx.y);
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  const int64_t first = (int64_t{blockIdx.x} * kRows + warp * 16) * p.gate.row_bytes;
  auto* steps = reinterpret_cast<float4*>(shared + at.steps) + warp * 8 * 16;
  auto* h = reinterpret_cast<float*>(shared);  // in the place of x: rows of 128 and a gap

  for (int t0 = first_slot; t0 < stop; t0 += kCols) {
    const int count = min(stop - t0, kCols);
    Weights w;
    w.start(p.gate.data + expert * p.gate.matrix_bytes + first, p.up.data + expert * p.up.matrix_bytes + first,
            p.gate.row_bytes);
    for (int col = warp; col < count; col += kWarps) {
      bring_row<At::kPairStride>(p, p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col, col, n,
                                 shared + col * at.row, shared + at.pairs);
    }
    __syncthreads();
    const auto tile = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      float y[2][kEights][4];
      multiply<kEights, At::kPairStride>(w, steps, shared, at.row, shared + at.pairs, n, y);
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          h[(e * 8 + lane % 4 * 2 + i % 2) * (kRows + 4) + warp * 16 + lane / 4 + i / 2 * 8] =
              silu32(y[0][e][i]) * y[1][e][i];
        }
      }
    };
    count <= 8 ? tile(std::integral_constant<int, 1>{}) : tile(std::integral_constant<int, 2>{});
    __syncthreads();
    for (int col = warp; col < count; col += kWarps) {
      quantize128(load4(h + col * (kRows + 4) + lane * 4), p.out,
                  (t0 + col) * (p.gate.rows / 32) + blockIdx.x * (kRows / 32));
    }
    __syncthreads();
  }
}

// Up to 48 rows of x: a block takes a whole expert. Two warps make the 32 values that are quantised together.
constexpr int kWideCols = 48;

__global__ void __launch_bounds__(kThreads, 1) wide_kernel(GatedParams p) {
  using At = Layout<kWideCols, kWarps>;
  constexpr int kHRow = 36;
  extern __shared__ __align__(256) uint8_t shared[];
  const int n = static_cast<int>(p.gate.cols / 32), lane = lane_id(), warp = warp_id();
  const At at(n);
  const int expert = static_cast<int>(blockIdx.x), units = static_cast<int>(p.gate.rows / 16);
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  auto* steps = reinterpret_cast<float4*>(shared + at.steps) + warp * 8 * 16;
  float* h = reinterpret_cast<float*>(shared + at.bytes) + warp / 2 * kWideCols * kHRow;
  const auto meet = [&] { asm volatile("bar.sync %0, 64;" ::"r"(warp / 2 + 1) : "memory"); };

  for (int t0 = first_slot; t0 < stop; t0 += kWideCols) {
    const int count = min(stop - t0, kWideCols);
    for (int col = warp; col < count; col += kWarps) {
      bring_row<At::kPairStride>(p, p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col, col, n,
                                 shared + col * at.row, shared + at.pairs);
    }
    __syncthreads();
    const auto tiles = [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      for (int unit = warp; unit < units; unit += kWarps) {
        const int64_t first = unit * 16 * p.gate.row_bytes;
        Weights w;
        w.start(p.gate.data + expert * p.gate.matrix_bytes + first, p.up.data + expert * p.up.matrix_bytes + first,
                p.gate.row_bytes);
        float y[2][kEights][4];
        multiply<kEights, At::kPairStride>(w, steps, shared, at.row, shared + at.pairs, n, y);
        meet();  // what was there before has been read
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            h[(e * 8 + lane % 4 * 2 + i % 2) * kHRow + warp % 2 * 16 + lane / 4 + i / 2 * 8] =
                silu32(y[0][e][i]) * y[1][e][i];
          }
        }
        meet();
        for (int col = warp % 2; col < count; col += 2) {
          quantize32(h[col * kHRow + lane], p.out, (t0 + col) * (p.gate.rows / 32) + unit / 2);
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
    const int bytes = Layout<kWideCols, kWarps>(static_cast<int>(n)).bytes + kWarps / 2 * kWideCols * 36 * 4;
    cudaFuncSetAttribute(wide_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const GatedParams p{w_gate, w_up, gate.q, act.out_q, gate.expert_begin, gate.slot_row};
    queue.launch(wide_kernel, dim3(static_cast<unsigned>(gate.w.experts)), kThreads, static_cast<size_t>(bytes), p);
    return true;
  }
#endif
  const Layout<kCols, kWarps> at(static_cast<int>(n));
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
