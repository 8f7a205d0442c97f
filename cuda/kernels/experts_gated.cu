// Gate and up products of the experts of a pass, their activation and its quantisation in one kernel, for
// Q4_K.
//
// A block takes one expert's 128 rows of each matrix and up to 16 or 24 rows of x at a time; its warps work
// without meeting, each on 16 rows of both, so that the lane that has a value of g has the u that belongs to
// it. The rows of x lie in shared memory for all of K. W comes from global memory into registers: the integer
// dot of a block of 32 is the same in any order, so lane q of the four that hold a row takes bytes 8q to 8q+7
// of its 32 bytes of nibbles (two blocks), and of x likewise. A register is refilled as soon as it was used.
//
// Bound: instructions; 5 of 31 to 37 per output and block are the contract's. The first level's cache, in
// which the sectors shared by neighbouring runs of W wait, has what shared memory leaves: with 16 rows of x
// there is more of it.
#include "cuda/kernels.h"
#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/int8_tiles.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

struct GatedParams {
  WeightView gate, up;
  ops::QuantizedRows x, out;
  const int32_t* expert_begin;
  const int32_t* slot_row;
};

constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = 16 * kWarps;

// Offsets in shared memory: x, in its place later silu(g)*u, then {d, d, sum, sum} of two rows a block of 32,
// then each warp's {gate step, minimum, up step, minimum} of 8 blocks and 16 rows.
template <int kCols>
struct Layout {
  int row, pairs, steps, bytes;
  __host__ __device__ explicit Layout(int n)
      : row(n * 32 + 32),
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

// A warp's 16 rows of both matrices: what is on its way of them, kAhead (a divisor of 4) runs of 64 values.
struct Weights {
  static constexpr int kAhead = 2;
  const uint8_t* from[2];  // of gate and up: row lane/4, bytes 8*(lane%4) of the first nibbles
  const uint8_t* head_from;
  int64_t half;  // bytes to the row that is 8 further
  uint2 w[2][kAhead][2];
  int4 head;  // of row lane%16 of gate or up

  __device__ void start(const uint8_t* gate, const uint8_t* up, int64_t row_bytes) {
    const int lane = lane_id();
    const int64_t at = lane / 4 * row_bytes + 16 + lane % 4 * 8;
    from[0] = gate + at, from[1] = up + at;
    head_from = (lane < 16 ? gate : up) + lane % 16 * row_bytes;
    half = 8 * row_bytes;
    head = load16(head_from);
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
__device__ inline void multiply(Weights& w, float4* steps, const uint8_t* x, int x_row, const uint8_t* pairs,
                                int n, float (&y)[2][kEights][4]) {
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
  const uint8_t* x_at = x + g * x_row + q * 8;
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
    w.head = load16(w.head_from);
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
        }
        const float4 s0 = steps[(2 * j + half) * 16 + g], s1 = steps[(2 * j + half) * 16 + g + 8];
        const float sw[2][2] = {{s0.x, s1.x}, {s0.z, s1.z}}, mw[2][2] = {{s0.y, s1.y}, {s0.w, s1.w}};
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
          const uint2 xs = *reinterpret_cast<const uint2*>(x_at + e * 8 * x_row + j * 64 + half * 32);
          const float4 d =
              *reinterpret_cast<const float4*>(pair_at + (2 * j + half) * kPairStride + e * 4 * 16);
          const uint32_t b[2] = {xs.x, xs.y};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float dots[4];
            dots_of_block(a[i], b, dots);
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

// Rows t0 .. t0 + count - 1 of x; there after wait_all and a barrier.
template <int kCols>
__device__ inline void bring_rows(const GatedParams& p, int t0, int count, int n, uint8_t* x, int x_row,
                                  uint8_t* pairs) {
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
    const int8_t* codes = p.x.codes + row[i] * n * 32;
    for (int c = lane * 16; c < n * 32; c += 32 * 16) copy_async<16>(x + col * x_row + c, codes + c, true);
  }
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int col = warp + i * kWarps;
    if (col >= count) break;
    const float* d = p.x.d + row[i] * n;
    const auto* sums = reinterpret_cast<const uint32_t*>(p.x.sums) + row[i] * n;
#pragma unroll 3
    for (int b = lane; b < n; b += 32) {
      auto* pair = reinterpret_cast<float*>(pairs + b * Layout<kCols>::kPairStride + col / 2 * 16) + col % 2;
      pair[0] = d[b];
      const auto both = static_cast<int>(sums[b]);
      pair[2] = static_cast<float>(static_cast<int16_t>(both) + (both >> 16));
    }
  }
}

template <int kCols>
__global__ void __launch_bounds__(kThreads, 2) gated_kernel(GatedParams p) {
  using At = Layout<kCols>;
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
    w.start(p.gate.data + expert * p.gate.matrix_bytes + first,
            p.up.data + expert * p.up.matrix_bytes + first, p.gate.row_bytes);
    bring_rows<kCols>(p, t0, count, n, shared, at.row, shared + at.pairs);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    by_eights<kCols / 8>(count, [&](auto eights) {
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
    });
    __syncthreads();
    for (int col = warp; col < count; col += kWarps) {
      quantize128(load4(h + col * (kRows + 4) + lane * 4), p.out,
                  (t0 + col) * (p.gate.rows / 32) + blockIdx.x * (kRows / 32));
    }
    __syncthreads();
  }
}

template <int kCols>
bool launch_gated(Queue& queue, const GatedParams& p, int64_t experts) {
  const auto bytes = static_cast<size_t>(Layout<kCols>(static_cast<int>(p.gate.cols / 32)).bytes);
  if (bytes > most_shared()) return false;
  static size_t raised = 0;
  if (bytes > raised) {
    raised = bytes;  // a refusal shows when the launch fails
    cudaFuncSetAttribute(gated_kernel<kCols>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  }
  queue.launch(gated_kernel<kCols>,
               dim3(static_cast<unsigned>(p.gate.rows / kRows), static_cast<unsigned>(experts)), kThreads,
               bytes, p);
  return true;
}

}  // namespace

bool gated_experts(Queue& queue, const ops::MatmulGroupedArgs& gate, const WeightView& w_gate,
                   const ops::MatmulGroupedArgs& up, const WeightView& w_up, const ops::SwigluArgs& act) {
  const auto taken = [](const WeightView& w) {
    return w.type == WeightType::kQ4_K && aligned(w.data) && w.matrix_bytes % 16 == 0 &&
           w.row_bytes % 16 == 0;
  };
  // Segments of whole runs of 64 values. With few slots other kernels are better (matmul_prompt.cu).
  if (!taken(w_gate) || !taken(w_up) || w_gate.cols != w_up.cols || w_gate.rows != w_up.rows ||
      w_gate.rows % kRows != 0 || w_gate.cols % 512 != 0 || up.q.codes != gate.q.codes ||
      act.out_q.codes == nullptr || 2 * gate.S < gate.w.experts) {
    return false;
  }
  const GatedParams p{w_gate, w_up, gate.q, act.out_q, gate.expert_begin, gate.slot_row};
  const bool few = gate.S <= 12 * gate.w.experts;
  return few ? launch_gated<16>(queue, p, gate.w.experts) : launch_gated<24>(queue, p, gate.w.experts);
}

}  // namespace argon::cuda
