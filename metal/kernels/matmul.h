// What the matrix products' kernels share: which rows of x a threadgroup takes, and the contract's segments.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/matmul_args.h"
#include "metal/kernels/weights.h"

constant uint weight_type [[function_constant(0)]];  // argon::WeightType
constant uint mode [[function_constant(1)]];         // MatmulMode
constant bool grouped [[function_constant(2)]];      // not kMatmulDense: there is expert_begin
constant bool gathered [[function_constant(3)]];     // there is slot_row

// Rows of x (slots) first .. stop-1, tile by tile, and the byte where their matrix begins.
struct MatmulWork {
  uint first, stop;
  ulong matrix;
};

// `y` is the threadgroup's place in the grid. Every lane of the simdgroup must take part.
inline void find_work(thread MatmulWork* work, device const int* expert_begin, constant MatmulMetalArgs& s,
                      uint y, uint tile, uint lane) {
  work->matrix = 0;
  if (mode == kMatmulDense) {
    work->first = y * tile;
    work->stop = metal::min(s.T, work->first + tile);
    return;
  }
  uint expert = y;
  if (mode == kMatmulSlots) {
    uint past = 0;
    for (uint e = lane; e < s.experts; e += 32) past += expert_begin[e + 1] <= int(y) ? 1u : 0u;
    expert = metal::simd_sum(past);
  }
  work->first = mode == kMatmulSlots ? y : uint(expert_begin[y]);
  work->stop = mode == kMatmulSlots ? y + 1 : uint(expert_begin[y + 1]);
  work->matrix = ulong(expert) * s.matrix_bytes;
}

// The row of x that slot t reads.
inline ulong input_row(device const int* slot_row, uint t) { return ulong(gathered ? uint(slot_row[t]) : t); }

// First block of segment i of n.
inline uint segment_begin(uint n, uint i) { return i * n / 8; }
