// Weights of any type of the file, by formats/<type>.h, the one source of all backends: 32 values of a row as
// int8 codes and steps (formats/block.h), or one value of a float row. Kernels fix the type by a function
// constant, which leaves one case of each switch.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "formats/iq1_m.h"
#include "formats/iq1_s.h"
#include "formats/iq2_s.h"
#include "formats/iq2_xs.h"
#include "formats/iq2_xxs.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/q2_0.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q4_k.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/q8_0.h"
#include "formats/weight_type_ids.h"

// Every integer-code type, for ARGON_CASE(T).
#define ARGON_CODE_TYPES                                                                                 \
  ARGON_CASE(Q8_0)                                                                                       \
  ARGON_CASE(Q4_0) ARGON_CASE(Q4_1) ARGON_CASE(Q5_0) ARGON_CASE(Q5_1) ARGON_CASE(Q2_K) ARGON_CASE(Q3_K)  \
      ARGON_CASE(Q4_K) ARGON_CASE(Q5_K) ARGON_CASE(Q6_K) ARGON_CASE(IQ1_S) ARGON_CASE(IQ1_M)             \
          ARGON_CASE(IQ2_XXS) ARGON_CASE(IQ2_XS) ARGON_CASE(IQ2_S) ARGON_CASE(IQ3_XXS) ARGON_CASE(IQ3_S) \
              ARGON_CASE(IQ4_NL) ARGON_CASE(IQ4_XS) ARGON_CASE(MXFP4) ARGON_CASE(NVFP4) ARGON_CASE(Q2_0)

template <class F>
inline void unpack_as(device const uint8_t* row, uint block, thread int8_t* codes,
                      thread argon::Steps* steps) {
  const uint per = uint(F::kBlockValues) / 32;
  F::unpack32(row + block / per * uint(F::kBlockBytes), int(block % per), codes, steps);
}

// Values 32*block .. 32*block+31 of the row at `row`, which is of an integer-code type. A row is below 4 GiB.
inline void unpack_block(argon::WeightType type, device const uint8_t* row, uint block, thread int8_t* codes,
                         thread argon::Steps* steps) {
  switch (type) {
#define ARGON_CASE(T)           \
  case argon::WeightType::k##T: \
    return unpack_as<argon::T>(row, block, codes, steps);
    ARGON_CODE_TYPES
#undef ARGON_CASE
    default:
      return;
  }
}

// Whether blocks of the type take two steps of 16 values, and whether a step has a minimum.
inline bool has_two_steps(argon::WeightType type) {
  switch (type) {
#define ARGON_CASE(T)           \
  case argon::WeightType::k##T: \
    return argon::T::kSteps == 2;
    ARGON_CODE_TYPES
#undef ARGON_CASE
    default:
      return false;
  }
}
inline bool has_minimum(argon::WeightType type) {
  switch (type) {
#define ARGON_CASE(T)           \
  case argon::WeightType::k##T: \
    return argon::T::kHasMin;
    ARGON_CODE_TYPES
#undef ARGON_CASE
    default:
      return false;
  }
}

// Value k of a row of F32, F16 or BF16; rows begin at a multiple of their value's size. A half converts
// exactly, subnormals included.
inline float load_weight(argon::WeightType type, device const uint8_t* row, uint k) {
  switch (type) {
    case argon::WeightType::kF16:
      return float(reinterpret_cast<device const half*>(row)[k]);
    case argon::WeightType::kBF16:
      return argon::bf16_to_f32(reinterpret_cast<device const uint16_t*>(row)[k]);
    default:
      return reinterpret_cast<device const float*>(row)[k];
  }
}
