// Q6_K: 256 values of 6 bits in 16 sub-blocks of 16, each with an int8 scale. value = (q-32)*(d*sc). sw =
// d*sc (11 + 7 bits) is exact, and so is a value (23 bits).
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q6_K {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 210;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t ql[128];  // per 128 values 64 bytes: low nibbles the first 64 values, high nibbles the others
    uint8_t qh[64];   // per 128 values 32 bytes: 2 bits for each of four sub-blocks of 32
    int8_t scales[16];
    uint8_t d[2];  // f16
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    const int part = sub & 3;
    ARGON_STORED const uint8_t* ql = b.ql + 64 * (sub / 4) + 32 * (part & 1);
    ARGON_STORED const uint8_t* qh = b.qh + 32 * (sub / 4);
    const int shift = 4 * (part / 2);
    for (int j = 0; j < 32; ++j) {
      codes[j] = static_cast<int8_t>(((ql[j] >> shift & 15) | (qh[j] >> 2 * part & 3) << 4) - 32);
    }
    const float d = load_f16(b.d);
    set_two_steps(steps, d * static_cast<float>(b.scales[2 * sub]),
                  d * static_cast<float>(b.scales[2 * sub + 1]));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
