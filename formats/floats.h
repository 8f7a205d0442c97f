// F32, F16 and BF16 rows: no codes and no steps, each value widens exactly (base/half.h). Rows need no
// alignment. A BF16 subnormal widens to a float32 subnormal, which counts as zero when it is used.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct F32 {
  ARGON_MEMBER_CONST int kValueBytes = 4;
  static ARGON_MATH_FN float load(ARGON_STORED const uint8_t* p) { return f32_from_bits(load_u32(p)); }
};
struct F16 {
  ARGON_MEMBER_CONST int kValueBytes = 2;
  static ARGON_MATH_FN float load(ARGON_STORED const uint8_t* p) { return load_f16(p); }
};
struct BF16 {
  ARGON_MEMBER_CONST int kValueBytes = 2;
  static ARGON_MATH_FN float load(ARGON_STORED const uint8_t* p) {
    return bf16_to_f32(static_cast<uint16_t>(load_u16(p)));
  }
};

#if !defined(__METAL_VERSION__)
// `n` values at `row` to float32.
template <class Float>
inline void widen_row_as(const void* row, int64_t n, float* out) {
  const uint8_t* p = static_cast<const uint8_t*>(row);
  for (int64_t i = 0; i < n; ++i) out[i] = Float::load(p + i * Float::kValueBytes);
}
#endif

}  // namespace ARGON_ISA_NS
}  // namespace argon
