// Matrix products of quantised weights with many rows of x; contract in ops/matmul/matmul.h.
//
// A threadgroup of 64 threads takes 32 rows of W and 32 rows of x. Two blocks of 32 values at a time are unpacked once to
// threadgroup memory, as halves: codes are at most 128 in magnitude, and sums of 32 products stay below 2^24, so fma on
// floats gives the exact integer dot in any order. A thread keeps 4 x 4 outputs, each as the segment's sum and the total.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/matmul.h"

using namespace metal;

constant constexpr uint kTile = 32;
constant constexpr uint kBlocks = 2;                // of 32 values, between barriers
constant constexpr uint kPitch = 32 * kBlocks + 4;  // halves from row to row; the rest keeps rows in different banks

inline void store_codes(threadgroup half* to, thread const int8_t* code) {
  threadgroup half4* out = (threadgroup half4*)to;
#pragma clang loop unroll(full)
  for (uint i = 0; i < 8; ++i)
    out[i] = half4(float4(float(code[4 * i]), float(code[4 * i + 1]), float(code[4 * i + 2]), float(code[4 * i + 3])));
}
inline void store_input(threadgroup half* to, int4 x) {
  threadgroup half4* out = (threadgroup half4*)to;
  out[0] = half4(float4(as_type<char4>(x.x)));
  out[1] = half4(float4(as_type<char4>(x.y)));
  out[2] = half4(float4(as_type<char4>(x.z)));
  out[3] = half4(float4(as_type<char4>(x.w)));
}

kernel void matmul_prompt(device const uint8_t* w [[buffer(0)]],
                          device const int4* codes [[buffer(1)]],
                          device const float* d [[buffer(2)]],
                          device const short2* sums [[buffer(3)]],
                          device float* y [[buffer(4)]],
                          device const int* expert_begin [[buffer(5), function_constant(grouped)]],
                          device const int* slot_row [[buffer(6), function_constant(gathered)]],
                          constant MatmulMetalArgs& s [[buffer(7)]],
                          uint2 tg [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  threadgroup half w_codes[kTile * kPitch];
  threadgroup half x_codes[kTile * kPitch];
  threadgroup float sw[kBlocks * 2 * kTile];
  threadgroup float mw[kBlocks * 2 * kTile];
  threadgroup float dx[kBlocks * kTile];
  threadgroup float x_sums[kBlocks * 2 * kTile];

  const argon::WeightType type = argon::WeightType(weight_type);
  const bool two_steps = has_two_steps(type), has_min = has_minimum(type);
  const uint n_steps = two_steps ? 2u : 1u, width = two_steps ? 4u : 8u;
  MatmulWork work;
  find_work(&work, expert_begin, s, tg.y, kTile, lane);
  const uint n = s.K / 32, m0 = tg.x * kTile;
  // Where this thread unpacks: a row of W and of x, a block.
  const uint own_row = tid / kBlocks, own_block = tid % kBlocks;
  device const uint8_t* w_row = w + work.matrix + ulong(min(m0 + own_row, s.M - 1)) * s.row_bytes;
  // Its outputs: rows row + 8*i of W, rows col + 8*j of x.
  const uint row = tid / 8, col = tid % 8;

  for (uint t0 = work.first; t0 < work.stop; t0 += kTile) {
    const uint count = min(kTile, work.stop - t0);
    const ulong x_row = input_row(slot_row, t0 + min(own_row, count - 1)) * n;
    float acc[4][4], total[4][4];
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
      for (uint j = 0; j < 4; ++j) acc[i][j] = 0.0f, total[i][j] = 0.0f;
    }
    uint segment = 0, segment_end = segment_begin(n, 1);
    for (uint b0 = 0; b0 < n; b0 += kBlocks) {
      if (b0 + own_block < n) {
        const uint b = b0 + own_block, to = own_row * kPitch + own_block * 32;
        int8_t code[32];
        argon::Steps steps;
        unpack_block(type, w_row, b, code, &steps);
        store_codes(w_codes + to, code);
        store_input(x_codes + to, codes[2 * (x_row + b)]);
        store_input(x_codes + to + 16, codes[2 * (x_row + b) + 1]);
        dx[own_block * kTile + own_row] = d[x_row + b];
        for (uint k = 0; k < n_steps; ++k) {
          sw[(own_block * 2 + k) * kTile + own_row] = steps.sw[k];
          if (has_min) mw[(own_block * 2 + k) * kTile + own_row] = steps.mw[k];
        }
        if (has_min) {
          const int2 sum = int2(sums[x_row + b]);
          x_sums[own_block * 2 * kTile + own_row] = float(two_steps ? sum.x : sum.x + sum.y);
          x_sums[(own_block * 2 + 1) * kTile + own_row] = float(sum.y);
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint k = 0; k < min(kBlocks, n - b0); ++k) {
        while (b0 + k == segment_end) {
#pragma clang loop unroll(full)
          for (uint i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
            for (uint j = 0; j < 4; ++j) {
              total[i][j] = segment == 0 ? acc[i][j] : total[i][j] + acc[i][j];
              acc[i][j] = 0.0f;
            }
          }
          ++segment;
          segment_end = segment_begin(n, segment + 1);
        }
        for (uint step = 0; step < n_steps; ++step) {
          float4 dot[4][4];
#pragma clang loop unroll(full)
          for (uint i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
            for (uint j = 0; j < 4; ++j) dot[i][j] = float4(0.0f);
          }
          threadgroup const half* w_from = w_codes + row * kPitch + k * 32 + step * 16;
          threadgroup const half* x_from = x_codes + col * kPitch + k * 32 + step * 16;
          for (uint q = 0; q < width; ++q) {
            float4 a[4];
#pragma clang loop unroll(full)
            for (uint i = 0; i < 4; ++i) a[i] = float4(((threadgroup const half4*)(w_from + 8 * i * kPitch))[q]);
#pragma clang loop unroll(full)
            for (uint j = 0; j < 4; ++j) {
              if (8 * j >= count) continue;
              const float4 x = float4(((threadgroup const half4*)(x_from + 8 * j * kPitch))[q]);
#pragma clang loop unroll(full)
              for (uint i = 0; i < 4; ++i) dot[i][j] = fma(a[i], x, dot[i][j]);
            }
          }
          const uint at = (k * 2 + step) * kTile;
#pragma clang loop unroll(full)
          for (uint j = 0; j < 4; ++j) {
            if (8 * j >= count) continue;
            const float dxj = dx[k * kTile + col + 8 * j];
            const float sum = has_min ? x_sums[at + col + 8 * j] : 0.0f;
#pragma clang loop unroll(full)
            for (uint i = 0; i < 4; ++i) {
              const float4 v = dot[i][j];
              acc[i][j] = fma(sw[at + row + 8 * i] * dxj, (v.x + v.y) + (v.z + v.w), acc[i][j]);
              if (has_min) acc[i][j] = fma(-(mw[at + row + 8 * i] * dxj), sum, acc[i][j]);
            }
          }
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    // The last segment with blocks, and empty ones after it, which add +0.
    for (; segment < 8; ++segment) {
#pragma clang loop unroll(full)
      for (uint i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
        for (uint j = 0; j < 4; ++j) {
          total[i][j] = segment == 0 ? acc[i][j] : total[i][j] + acc[i][j];
          acc[i][j] = 0.0f;
        }
      }
    }
#pragma clang loop unroll(full)
    for (uint j = 0; j < 4; ++j) {
#pragma clang loop unroll(full)
      for (uint i = 0; i < 4; ++i) {
        const uint m = m0 + row + 8 * i, t = col + 8 * j;
        if (m < s.M && t < count) y[ulong(t0 + t) * s.ldy + m] = total[i][j];
      }
    }
  }
}
