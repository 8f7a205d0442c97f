// Random rows of any weight type for tests and benches: codes are random bytes, scales are set to sane
// values, so that every decoded value is finite.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "formats/format.h"

namespace argon {

// `values` (a multiple of the block) of type `type`, of magnitude about `scale`.
inline std::vector<uint8_t> random_weight_rows(WeightType type, int64_t values, float scale,
                                               std::mt19937_64& rng) {
  const FormatTraits* f = find_format(type);
  std::vector<uint8_t> out(static_cast<size_t>(values / f->block_values * f->block_bytes));
  std::normal_distribution<float> normal(0.0f, scale);
  if (f->unpack32 == nullptr) {
    for (int64_t i = 0; i < values; ++i) {
      const float v = normal(rng);
      const uint16_t half = type == WeightType::kF16 ? f32_to_f16(v) : f32_to_bf16(v);
      if (type == WeightType::kF32) {
        std::memcpy(out.data() + i * 4, &v, 4);
      } else {
        std::memcpy(out.data() + i * 2, &half, 2);
      }
    }
    return out;
  }
  // Random bytes; a block whose scales decode to something not finite, or far too large, is drawn again.
  std::vector<float> decoded(static_cast<size_t>(f->block_values));
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(f->block_bytes)) {
    for (bool good = false; !good;) {
      for (int i = 0; i < f->block_bytes; ++i) out[at + static_cast<size_t>(i)] = static_cast<uint8_t>(rng());
      f->dequant_row(out.data() + at, f->block_values, decoded.data());
      good = true;
      for (float v : decoded) good = good && std::fabs(v) < 1e4f;
    }
  }
  return out;
}

}  // namespace argon
