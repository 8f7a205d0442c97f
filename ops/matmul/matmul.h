// Matrix products y[t][m] = sum_k W[m][k] * x[t][k] with weights in any type of the file (NUMERICS.md,
// "Matrix products"), the quantisation of their inputs, and the same over groups of rows that share an
// expert.
//
// Shapes      W [M][K] rows of the file's type; x [T][K] float32; y [T][M] float32, rows `ldy` apart
// (elements). Float W     (F32, F16, BF16): y = sum32 over k with fma(W, x, lane), whatever K. Quantised W
// (all integer-code types; K a multiple of 32): x is quantised per 32 values first (quantize below).
//     For each 32-block: i = exact integer dot of codes; acc = fma(sw*d, float(i), acc), sw the weight scale
//     as one f32, sw*d rounded once. Types with 16-wide scales take two such steps, low half first. Types
//     with a minimum follow each step with acc = fma(-(mw*d), float(sum of x codes in it), acc). The n = K/32
//     blocks form 8 contiguous segments, segment i = blocks floor(i*n/8) .. floor((i+1)*n/8)-1, each from +0
//     in block order; y = ((((((s0+s1)+s2)+s3)+s4)+s5)+s6)+s7.
// Every row of a batch is computed exactly as a single row would be.
// Units       quantize: rows of x. matmul and grouped: tiles of kMatmulTile rows of W (grouped: expert by
// expert). Writes      y rows in full, nothing between them. No aliasing. Errors      none: arguments are
// checked when weights are bound (model/weights.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/weight_type.h"
#include "ops/route.h"

namespace argon::ops {

// Rows of W that one unit computes; a multiple of every kernel's row block.
inline constexpr int64_t kMatmulTile = 16;

// A weight matrix as it lies in the file: `rows` rows of `cols` values, `row_bytes` apart.
struct WeightMatrix {
  const void* data = nullptr;
  WeightType type = WeightType::kF32;
  int64_t rows = 0, cols = 0;
  size_t row_bytes = 0;
};

// `experts` matrices of one shape, `expert_bytes` apart.
struct ExpertMatrix {
  WeightMatrix first;
  int64_t experts = 0;
  size_t expert_bytes = 0;
};

// Activations quantised per 32 values: x ~ code * d. Rows are contiguous.
struct QuantizedRows {
  int8_t* codes = nullptr;  // [T][K], -127..127
  float* d = nullptr;       // [T][K/32]
  int16_t* sums = nullptr;  // [T][K/16] sums of the codes of each half block
};

// a = max|x| of the block; a < 2^-100 (so all zero): codes 0, d = 0; else d = a/127, code = rint(x *
// (127/a)). A block with an infinity or NaN gets codes 0 and a non-finite d, so that every product with it is
// NaN.
//
// Operations whose output feeds products have a QuantizedRows of their own: when its codes are given, they
// also quantise what they write, a unit at a time, as QuantizeArgs quantized(args) of their room says; the
// width of a unit is then a multiple of 32.
struct QuantizeArgs {
  const float* x;  // [T][K]
  QuantizedRows q;
  int64_t T, K;  // K a multiple of 32
};

struct MatmulArgs {
  WeightMatrix w;
  const float* x;   // [T][K]; read by float types
  QuantizedRows q;  // [T][K]; read by integer-code types
  float* y;         // [T][ldy], M columns written
  int64_t T, ldy;
};

// Slot s (of S, sorted by expert) multiplies expert e's matrix, where expert_begin[e] <= s <
// expert_begin[e+1], with input row slot_row[s] (or s itself when slot_row is null) and writes y[s][0..M).
struct MatmulGroupedArgs {
  ExpertMatrix w;
  const float* x;
  QuantizedRows q;
  const int32_t* expert_begin;  // [experts + 1], ascending, from 0 to S
  const int32_t* slot_row;      // [S] or null
  float* y;                     // [S][M]
  int64_t S;
};

inline int64_t matmul_tiles(int64_t rows) { return (rows + kMatmulTile - 1) / kMatmulTile; }
inline int64_t units(const QuantizeArgs& a) { return a.T; }
inline int64_t units(const MatmulArgs& a) { return matmul_tiles(a.w.rows); }
inline int64_t units(const MatmulGroupedArgs& a) { return a.w.experts * matmul_tiles(a.w.first.rows); }

// First block of segment i of n blocks.
inline int64_t segment_begin(int64_t n, int i) { return i * n / 8; }

void quantize_ref(const QuantizeArgs&, int64_t begin, int64_t end);
void matmul_ref(const MatmulArgs&, int64_t begin, int64_t end);
void matmul_grouped_ref(const MatmulGroupedArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
