// Gate and up products of the experts of a pass, their activation and its quantisation in one kernel, for
// Q4_K.
//
// A block takes one expert's 128 rows of each matrix and up to 24 rows of x at a time; its warps work without
// meeting, each on 16 rows of both, so that the lane that has a value of g has the u that belongs to it. The
// rows of x lie in shared memory for all of K, in the order of the fragments of m16n8k32: one 16-byte read
// gives a lane two blocks of a row. W comes from global memory into registers: the integer dot of a block of
// 32 is the same in any order, so lane q of four takes bytes 8q to 8q+7 of a row's 32 bytes of nibbles (two
// blocks), and x is laid out likewise. A register is refilled with what is to come as soon as it was used.
//
// Bound: bytes of W; 5 float operations per output and block of 32.
#include "cuda/kernels.h"
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/experts.cuh"
#include "cuda/kernels/matmul.cuh"

#ifndef ARGON_AHEAD
#define ARGON_AHEAD 2
#endif
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

// Not .nc: these are to stay before the barrier that follows them.
__device__ inline uint2 load_codes8(const uint8_t* p) {
  uint2 v;
  asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ inline uint4 load_head(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

// A warp's 16 rows of both matrices: what is on its way of them, kAhead runs of 64 values.
struct Weights {
  static constexpr int kAhead = ARGON_AHEAD;
  const uint8_t* from[2];  // of gate and up: row lane/4, bytes 8*(lane%4) of the first nibbles
  const uint8_t* head_from;
  int64_t half;  // bytes to the row that is 8 further
  uint2 w[2][kAhead][2];
  uint4 head;  // of row lane%16 of gate or up

  __device__ void start(const uint8_t* gate, const uint8_t* up, int64_t row_bytes) {
    const int lane = lane_id();
    const int64_t at = lane / 4 * row_bytes + 16 + lane % 4 * 8;
    from[0] = gate + at, from[1] = up + at;
    head_from = (lane < 16 ? gate : up) + lane % 16 * row_bytes;
    half = 8 * row_bytes;
    head = load_head(head_from);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) fetch(j, j * 32);
  }
  __device__ void fetch(int j, int64_t offset) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w[i][j][0] = load_codes8(from[i] + offset);
      w[i][j][1] = load_codes8(from[i] + half + offset);
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
  for (int turn = 0; turn < turns; ++turn) {
    __syncwarp();
    const Q4_KHead head(w.head);
    const ByteFloats bytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      reinterpret_cast<float2*>(steps + i * 16 + lane % 16)[lane / 16] =
          head.step(bytes, head.scales[i / 4], head.minima[i / 4], i % 4);
    }
    __syncwarp();
    const int ahead = turn + 1 < turns ? 144 : 0;  // the last turn reads itself again
    w.head_from += ahead;
    w.head = load_head(w.head_from);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (left == 0) {
        __syncwarp();  // a branch, not conditions on each instruction
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
      constexpr int kAhead = Weights::kAhead;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            a[i][r] = w.w[i][j % kAhead][r].x >> 4 * half & 0x0f0f0f0fu;
            a[i][2 + r] = w.w[i][j % kAhead][r].y >> 4 * half & 0x0f0f0f0fu;
          }
        }
        if (half == 1) {
          w.fetch(j % kAhead, 32 * ((j + kAhead) % 4) + (j + kAhead >= 4 ? ahead : 0));
          asm volatile("bar.sync %0, 32;" ::"r"(warp_id() + 1) : "memory");  // the compiler would put loads off
        }
        const float4 s0 = steps[(2 * j + half) * 16 + g], s1 = steps[(2 * j + half) * 16 + g + 8];
        const float sw[2][2] = {{s0.x, s1.x}, {s0.z, s1.z}}, mw[2][2] = {{s0.y, s1.y}, {s0.w, s1.w}};
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
          const uint2 xs = *reinterpret_cast<const uint2*>(x_at + e * 8 * x_row + j * 64 + half * 8);
          const float4 d =
              *reinterpret_cast<const float4*>(pair_at + (2 * j + half) * kPairStride + e * 4 * 16);
          const uint32_t b[2] = {xs.x, xs.y};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float dots[4];
            dot_k32<false>(a[i], b, dots);
            add_min(acc[i][e], dots, sw[i], mw[i], d);
          }
        }
      }
    }
    x_at += 256;
    pair_at += 8 * kPairStride;
    w.from[0] += ahead, w.from[1] += ahead;
  }
#pragma unroll
  for (int i = 0; i < 8 * kEights; ++i) {
    float& sum = y[i / 4 / kEights][i / 4 % kEights][i % 4];
    sum = sum + acc[i / 4 / kEights][i / 4 % kEights][i % 4];
  }
}

constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = 16 * kWarps, kCols = 24;

// Rows t0 .. t0 + count - 1 of x; there after wait_all and a barrier.
__device__ inline void bring_rows(const GatedParams& p, int t0, int count, int n, uint8_t* x, int x_row,
                                  uint8_t* pairs, int pair_stride) {
  constexpr int kMine = kCols / kWarps;
  const int lane = lane_id(), warp = warp_id();
  int64_t row[kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int t = t0 + min(warp + i * kWarps, count - 1);
    row[i] = p.slot_row != nullptr ? p.slot_row[t] : t;
  }
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int col = warp + i * kWarps;
    if (col >= count) break;
    const int8_t* codes = p.x.codes + row[i] * n * 32 + lane * 8;
    uint8_t* to = x + col * x_row + lane / 8 * 64 + lane % 4 * 16 + lane / 4 % 2 * 8;
    for (int j = 0; j < n / 8; ++j) copy_async<8>(to + j * 256, codes + j * 256, true);
  }
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int col = warp + i * kWarps;
    if (col >= count) break;
    const float* d = p.x.d + row[i] * n;
    const auto* sums = reinterpret_cast<const uint32_t*>(p.x.sums) + row[i] * n;
#pragma unroll 3
    for (int b = lane; b < n; b += 32) {
      auto* pair = reinterpret_cast<float*>(pairs + b * pair_stride + col / 2 * 16) + col % 2;
      pair[0] = d[b];
      const auto both = static_cast<int>(sums[b]);
      pair[2] = static_cast<float>(static_cast<int16_t>(both) + (both >> 16));
    }
  }
}

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

  for (int t0 = first_slot, count; t0 < stop; t0 += count) {
    count = next_rows<kCols>(stop - t0);
    Weights w;
    w.start(p.gate.data + expert * p.gate.matrix_bytes + first, p.up.data + expert * p.up.matrix_bytes + first,
            p.gate.row_bytes);
    bring_rows(p, t0, count, n, shared, at.row, shared + at.pairs, At::kPairStride);
    asm volatile("cp.async.wait_all;");
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
    switch ((count + 7) / 8) {
      case 1:
        tile(std::integral_constant<int, 1>{});
        break;
      case 2:
        tile(std::integral_constant<int, 2>{});
        break;
      default:
        tile(std::integral_constant<int, 3>{});
    }
    __syncthreads();
    for (int col = warp; col < count; col += kWarps) {
      quantize128(load4(h + col * (kRows + 4) + lane * 4), p.out,
                  (t0 + col) * (p.gate.rows / 32) + blockIdx.x * (kRows / 32));
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
      w_gate.rows % kRows != 0 || n % 16 != 0 || act.out_q.codes == nullptr || 2 * gate.S < gate.w.experts) {
    return false;
  }
#ifdef ARGON_MICRO
  if (g_gated_variant > 0) return false;
#endif
  const Layout<kCols, kWarps> at(static_cast<int>(n));
  if (at.bytes > most_shared()) return false;
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
