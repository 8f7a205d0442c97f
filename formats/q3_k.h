// Q3_K: 256 values of 3 bits in 16 sub-blocks of 16, each with a 6-bit signed scale. value = (q - (bit set ?
// 0 : 4))*(d*sc). sw = d*sc (11 + 5 bits) is exact, and so is a value.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

// Sub-scale `i` (0..15) of Q3_K: 6 bits less 32. Bytes 0-7 hold the low nibbles of scales 0-7 (low) and 8-15
// (high), bytes 8-11 two more bits for scales i, i+4, i+8, i+12.
ARGON_MATH_FN float q3_k_scale(ARGON_STORED const uint8_t* s, int i) {
  const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
  const int high = s[8 + (i & 3)] >> 2 * (i / 4) & 3;
  return static_cast<float>((low | high << 4) - 32);
}

struct Q3_K {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 110;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t hmask[32];  // bit `sub` of byte j: the third bit of value j
    uint8_t q[64];      // two bits each, as in Q2_K
    uint8_t scales[12];
    uint8_t d[2];  // f16
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 32 * (sub / 4);
    const int shift = 2 * (sub & 3);
    for (int j = 0; j < 32; ++j) {
      codes[j] = static_cast<int8_t>(((q[j] >> shift & 3) | (b.hmask[j] >> sub & 1) << 2) - 4);
    }
    const float d = load_f16(b.d);
    set_two_steps(steps, d * q3_k_scale(b.scales, 2 * sub), d * q3_k_scale(b.scales, 2 * sub + 1));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
