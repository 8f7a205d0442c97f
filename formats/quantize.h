// Scalar quantisers for tests and small tools: n float32 values (a multiple of 32) to Q8_0 or Q4_0 blocks,
// bit for bit what the published converters write for finite input. They choose a step in float32, code with
// it, and store it as f16.
#pragma once

#include <cstdint>

#include "formats/block.h"
#include "formats/q4_0.h"
#include "formats/q8_0.h"

namespace argon {
inline namespace ARGON_ISA_NS {

// d = max|x|/127, code = x*(1/d) rounded to nearest, halves away from zero.
inline void quantize_q8_0(const float* x, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; i += 32, out += Q8_0::kBlockBytes) {
    float largest = 0.0f;
    for (int j = 0; j < 32; ++j) {
      const float size = x[i + j] < 0.0f ? -x[i + j] : x[i + j];
      largest = size > largest ? size : largest;
    }
    const float d = largest / 127.0f;
    const float inverse = d > 0.0f ? 1.0f / d : 0.0f;
    const uint16_t half = f32_to_f16(d);
    out[0] = static_cast<uint8_t>(half & 0xff);
    out[1] = static_cast<uint8_t>(half >> 8);
    for (int j = 0; j < 32; ++j) {
      const float q = x[i + j] * inverse;
      const int code = static_cast<int>(q + (x[i + j] < 0.0f ? -0.5f : 0.5f));
      out[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(code));
    }
  }
}

// d = (the first value of largest size, with its sign) / -8, code = x*(1/d) + 8 rounded to nearest, at
// most 15.
inline void quantize_q4_0(const float* x, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; i += 32, out += Q4_0::kBlockBytes) {
    float largest = 0.0f;
    float extreme = 0.0f;
    for (int j = 0; j < 32; ++j) {
      const float size = x[i + j] < 0.0f ? -x[i + j] : x[i + j];
      extreme = size > largest ? x[i + j] : extreme;
      largest = size > largest ? size : largest;
    }
    const float d = extreme / -8.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    const uint16_t half = f32_to_f16(d);
    out[0] = static_cast<uint8_t>(half & 0xff);
    out[1] = static_cast<uint8_t>(half >> 8);
    const auto code = [inverse](float value) {
      const int q = static_cast<int>(value * inverse + 8.5f);
      return static_cast<unsigned>(q > 15 ? 15 : q);
    };
    for (int j = 0; j < 16; ++j) {
      out[2 + j] = static_cast<uint8_t>(code(x[i + j]) | code(x[i + j + 16]) << 4);
    }
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
