// Sizes of the matrix products' kernels, as the host hands them over. Letters as in ops/matmul/matmul.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

// How a threadgroup finds its rows of x (or slots) and its matrix.
enum MatmulMode {
  kMatmulDense = 0,    // y of the grid: a tile of rows of x
  kMatmulSlots = 1,    // y: a slot; its expert is searched
  kMatmulExperts = 2,  // y: an expert; all its slots, tile by tile
};

struct MatmulMetalArgs {
  uint64_t row_bytes, matrix_bytes;  // of W; from one expert to the next
  uint32_t M, K;
  uint32_t T;  // rows of x, or slots
  uint32_t ldy;
  uint32_t experts;
  uint32_t lane_bits;  // matmul_step: 2^lane_bits lanes share a row of W, 4 to 32
};

struct QuantizeMetalArgs {
  uint64_t blocks;  // of 32 values
};
