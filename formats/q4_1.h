// Q4_1: 32 values of 4 bits with a minimum, nibbles as in Q4_0. value = q*d + m, so mw = -m; both are widened
// f16, q*d (11 + 4 bits) is exact and a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q4_1 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 20;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = true;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t m[2];  // f16
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    unpack_nibbles(b.q, 0, codes);
    set_step_min(steps, load_f16(b.d), -load_f16(b.m));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
