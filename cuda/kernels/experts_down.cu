// Down products of the experts of a pass, for IQ4_NL with K = 640: a row is 320 bytes of codes and 40 of
// scales, so that 16 rows of W lie in two pieces.
//
// A block takes a part of one expert's rows and up to 24 rows of x at a time; its warps work without meeting,
// each on slabs of 16 rows, the next of which is under way by asynchronous copies while one is computed. The
// rows of x lie in shared memory in the order of the fragments of m16n8k32: one 16-byte read gives a lane two
// blocks of a row. Within a block of 32 they are in the order in which nibbles are unpacked, as the integer
// dot is the same in any order.
//
// Bound: bytes of W and y; the unit of integers, which unpacks (22 operations a warp, 16 rows and block) and
// converts (4 a product of 8 rows of x).
#include "cuda/kernels/copy_async.cuh"
#include "cuda/kernels/int8_tiles.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kWarps = 8, kCols = 24;
constexpr int kParts = 4;                      // blocks of an expert
constexpr int kBlocks = 20;                    // of 32 in a row
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

struct Memory {
  // Two blocks' fragments of a row of x: 64 bytes, pair p of row c at p ^ (c & 1).
  alignas(128) uint8_t x[kCols][kBlocks / 2][64];
  alignas(16) float d[kBlocks / 2][kCols / 2 + 1][4];  // of two blocks and two rows of x
  Slab slabs[kWarps][2];
};

// 16 rows of W from `codes` and `scales` on.
__device__ inline void fetch(Slab& s, const uint8_t* codes, const uint8_t* scales) {
  const int lane = lane_id();
#pragma unroll
  for (int j = 0; j < kBlocks / 4; ++j) {
    // Chunks of 8 rows, then of the others.
    const int c = lane + 32 * j;
    uint8_t* to = s.codes + (c + c / kBlocks) * 16;
    copy_async<16>(to, codes + c * 16, true);
    copy_async<16>(to + 8 * kRowStride, codes + c * 16 + 8 * kBlocks * 16, true);
  }
  static_assert(kScaleBytes == 40 * 16);
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

// Row `row` of x, and its steps, to row `col`, by one warp.
__device__ inline void bring_row(Memory& memory, const ops::QuantizedRows& x, int64_t row, int col) {
  const int lane = lane_id();
  const auto* codes = reinterpret_cast<const uint32_t*>(x.codes + row * kBlocks * 32);
#pragma unroll
  for (int j = 0; j < (kBlocks * 4 + 31) / 32; ++j) {
    // As nibbles are unpacked: value k, 16 + k, k + 1, 16 + k + 1.
    const int i = lane + 32 * j, b = i / 4, c = i % 4;
    if (i < kBlocks * 4) {
      const uint32_t low = codes[b * 8 + c], high = codes[b * 8 + c + 4];
      *reinterpret_cast<uint2*>(&memory.x[col][b / 2 ^ (col & 1)][c * 16 + b % 2 * 8]) =
          make_uint2(choose(low, high, 0x5140), choose(low, high, 0x7362));
    }
  }
  if (lane < kBlocks) memory.d[lane / 2][col / 2][lane % 2 * 2 + col % 2] = x.d[row * kBlocks + lane];
}

// A slab by kEights * 8 rows of x.
template <int kEights>
__device__ inline void multiply(const Memory& memory, const Slab& s, const Table& table,
                                float (&y)[kEights][4]) {
  const int lane = lane_id(), g = lane / 4, q = lane % 4;
  const uint8_t* x_at[2] = {&memory.x[g][g & 1][q * 16], &memory.x[g][(g & 1) ^ 1][q * 16] - 64};
  const unsigned w_at = shared_at(s.codes + (lane % 8 + lane / 8 % 2 * 8) * kRowStride + lane / 16 * 16);
  float acc[kEights][4];
#pragma unroll
  for (int i = 0; i < 4 * kEights; ++i) {
    acc[i / 4][i % 4] = 0.0f;
    y[i / 4][i % 4] = -0.0f;  // -0 + x is x, whatever x is
  }
  uint2 scales[2];
#pragma unroll
  for (int pair = 0; pair < kBlocks / 2; ++pair) {
    if (pair % 2 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        scales[i] = *reinterpret_cast<const uint2*>(s.scales + (g + 8 * i) * kBlocks * 2 + pair * 4);
    }
    uint32_t packed[4], a[2][4];
    float sw[2][2];
    load_matrices(w_at + static_cast<unsigned>(pair * 32), packed);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unpack_iq4(table, packed[2 * half], &a[half][0], &a[half][2]);
      unpack_iq4(table, packed[2 * half + 1], &a[half][1], &a[half][3]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t two = pair % 2 == 0 ? scales[i].x : scales[i].y;
        const __half2 h = *reinterpret_cast<const __half2*>(&two);
        sw[half][i] = half == 0 ? __low2float(h) : __high2float(h);
      }
    }
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      const uint4 x = *reinterpret_cast<const uint4*>(x_at[pair % 2] + (e * 8 * kBlocks / 2 + pair) * 64);
      const float4 d = *reinterpret_cast<const float4*>(memory.d[pair][e * 4 + q]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (starts_segment(2 * pair + half)) {
#pragma unroll
          for (int i = 0; i < 4; ++i) y[e][i] = y[e][i] + acc[e][i], acc[e][i] = 0.0f;
        }
        const uint32_t b[2] = {half == 0 ? x.x : x.z, half == 0 ? x.y : x.w};
        float dots[4];
        dots_of_block(a[half], b, dots);
        add_step(acc[e], dots, sw[half], half == 0 ? d.x : d.z, half == 0 ? d.y : d.w);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * kEights; ++i) y[i / 4][i % 4] = y[i / 4][i % 4] + acc[i / 4][i % 4];
}

// blockIdx.y is an expert, blockIdx.x a part of its rows.
__global__ void __launch_bounds__(32 * kWarps, 2) down_kernel(DownParams p) {
  extern __shared__ __align__(256) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const int lane = lane_id(), warp = warp_id();
  const int expert = static_cast<int>(blockIdx.y), slabs = static_cast<int>(p.w.rows / 16);
  const int first_slot = p.expert_begin[expert], stop = p.expert_begin[expert + 1];
  const Table table;
  const uint8_t* data = p.w.data + expert * p.w.matrix_bytes;
  const int first = static_cast<int>(blockIdx.x) * kWarps + warp, step = kParts * kWarps;
  Slab* ring = memory.slabs[warp];
  const auto bring = [&](int slab, int which) {
    if (slab < slabs) {
      fetch(ring[which], data + int64_t{slab} * 16 * kBlocks * 16,
            data + p.w.scales + int64_t{slab} * kScaleBytes);
    }
    asm volatile("cp.async.commit_group;");
  };

  for (int t0 = first_slot, count; t0 < stop; t0 += count) {
    count = next_rows<kCols>(stop - t0);
    bring(first, 0);
    for (int col = warp; col < count; col += kWarps) {
      bring_row(memory, p.x, p.slot_row != nullptr ? p.slot_row[t0 + col] : t0 + col, col);
    }
    __syncthreads();
    by_eights<kCols / 8>(count, [&](auto eights) {
      constexpr int kEights = decltype(eights)::value;
      int which = 0;
      for (int slab = first; slab < slabs; slab += step, which ^= 1) {
        bring(slab + step, which ^ 1);
        asm volatile("cp.async.wait_group 1;");
        __syncwarp();
        float y[kEights][4];
        multiply<kEights>(memory, ring[which], table, y);
        __syncwarp();
        float* to = p.y + int64_t{t0} * p.w.rows + slab * 16 + lane / 4;
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int t = e * 8 + lane % 4 * 2 + i % 2;
            if (t < count) to[t * p.w.rows + i / 2 * 8] = y[e][i];
          }
        }
      }
    });
    asm volatile("cp.async.wait_all;");
    __syncthreads();
  }
}

}  // namespace

bool matmul_down(Queue& queue, const MatmulParams& a) {
  if (a.expert_begin == nullptr || a.w.type != WeightType::kIQ4_NL || !a.w.split ||
      a.w.cols != kBlocks * 32 || a.w.rows % 16 != 0 || sizeof(Memory) > most_shared()) {
    return false;
  }
  static const cudaError_t raised =
      cudaFuncSetAttribute(down_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  const DownParams p{a.w, a.q, a.expert_begin, a.slot_row, a.y};
  queue.launch(down_kernel, dim3(kParts, static_cast<unsigned>(a.experts)), 32 * kWarps, sizeof(Memory), p);
  return true;
}

}  // namespace argon::cuda
