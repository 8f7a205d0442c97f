// Q4_0: 32 values of 4 bits, value j in the low nibble of byte j, value j+16 in its high nibble. value =
// (q-8)*d; the step d is the widened f16, and the product (11 + 4 bits) is exact.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q4_0 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 18;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    unpack_nibbles(b.q, 8, codes);
    set_step(steps, load_f16(b.d));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
