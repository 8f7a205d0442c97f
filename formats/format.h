// What the engine can do with each weight type, looked up at run time. Kernels that are templates over a
// format include that type's own header instead.
#pragma once

#include <cstdint>

#include "formats/block.h"
#include "formats/weight_type.h"

namespace argon {

struct FormatTraits {
  WeightType type;
  int block_values;  // 1 for the float types
  int block_bytes;
  int steps;  // steps per 32 values: 0 for the float types, else 1 or 2
  bool has_min;

  // Values 32*sub .. 32*sub+31 of a block as int8 codes and steps (formats/block.h); null for the float
  // types.
  void (*unpack32)(const uint8_t* block, int sub, int8_t* codes, Steps* steps);

  // `n` values (a multiple of block_values) at `row` to float32: code*sw rounded once, with a minimum
  // fma(code, sw, -mw); float types widen exactly. `row` needs no alignment and does not overlap `out`.
  void (*dequant_row)(const void* row, int64_t n, float* out);
};

// The traits of a type, or null if the engine cannot compute with it (integer and 64-bit types, TQ1_0, TQ2_0,
// Q1_0).
const FormatTraits* find_format(WeightType type);

}  // namespace argon
