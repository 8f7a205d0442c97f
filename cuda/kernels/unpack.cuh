// Any weight type by its number: 32 values of a row as codes and steps (formats/block.h), or one value as a
// float. The general way for types without kernels of their own.
#pragma once

#include "cuda/device.cuh"
#include "cuda/weights.h"
#include "formats/floats.h"
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

namespace argon::cuda {

template <class F>
__device__ inline void unpack_as(const uint8_t* row, int64_t block, int8_t* codes, Steps* s) {
  constexpr int kPer = F::kBlockValues / 32;
  F::unpack32(row + block / kPer * F::kBlockBytes, static_cast<int>(block % kPer), codes, s);
}

// Block `b` (32 values) of a row as it lies in the file.
static __device__ __noinline__ void unpack_any(WeightType type, const uint8_t* row, int64_t b, int8_t* codes,
                                               Steps* s) {
  switch (type) {
#define ARGON_CASE(T)    \
  case WeightType::k##T: \
    return unpack_as<T>(row, b, codes, s)
    ARGON_CASE(Q8_0);
    ARGON_CASE(Q4_0);
    ARGON_CASE(Q4_1);
    ARGON_CASE(Q5_0);
    ARGON_CASE(Q5_1);
    ARGON_CASE(Q2_K);
    ARGON_CASE(Q3_K);
    ARGON_CASE(Q4_K);
    ARGON_CASE(Q5_K);
    ARGON_CASE(Q6_K);
    ARGON_CASE(IQ1_S);
    ARGON_CASE(IQ1_M);
    ARGON_CASE(IQ2_XXS);
    ARGON_CASE(IQ2_XS);
    ARGON_CASE(IQ2_S);
    ARGON_CASE(IQ3_XXS);
    ARGON_CASE(IQ3_S);
    ARGON_CASE(IQ4_NL);
    ARGON_CASE(IQ4_XS);
    ARGON_CASE(MXFP4);
    ARGON_CASE(NVFP4);
    ARGON_CASE(Q2_0);
#undef ARGON_CASE
    default:
      return;
  }
}

// The same from a split matrix: row `m` of the matrix at `data`.
__device__ inline void unpack_view(const WeightView& w, const uint8_t* data, int64_t m, int64_t b,
                                   int8_t* codes, Steps* s) {
  if (!w.split) return unpack_any(w.type, data + m * w.row_bytes, b, codes, s);
  const int64_t n = w.cols / 32;
  const uint8_t* scale = data + w.scales + (m * n + b) * 2;
  const uint8_t* q = data + (m * n + b) * w.code_bytes;
  uint8_t block[34];
  block[0] = scale[0];
  block[1] = scale[1];
  for (int i = 0; i < w.code_bytes; ++i) block[2 + i] = q[i];
  unpack_any(w.type, block, 0, codes, s);
}

__device__ inline float load_float(WeightType type, const uint8_t* row, int64_t k) {
  switch (type) {
    case WeightType::kF16:
      return f16_to_f32(reinterpret_cast<const uint16_t*>(row)[k]);
    case WeightType::kBF16:
      return bf16_to_f32(reinterpret_cast<const uint16_t*>(row)[k]);
    default:
      return reinterpret_cast<const float*>(row)[k];
  }
}

}  // namespace argon::cuda
