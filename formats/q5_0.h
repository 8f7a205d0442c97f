// Q5_0: 32 values of 5 bits: nibbles as in Q4_0, the fifth bit of value j is bit j of h. value = (q-16)*d;
// the product (11 + 5 bits) is exact.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q5_0 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 22;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t h[4];
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    const uint32_t h = load_u32(b.h);
    for (int j = 0; j < 16; ++j) {
      codes[j] = static_cast<int8_t>(static_cast<int>((b.q[j] & 15) | (h >> j & 1) << 4) - 16);
      codes[j + 16] = static_cast<int8_t>(static_cast<int>((b.q[j] >> 4) | (h >> (j + 16) & 1) << 4) - 16);
    }
    set_step(steps, load_f16(b.d));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
