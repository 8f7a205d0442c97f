// Q8_0: 32 values of 8 bits. value = q*d; the step d is the widened f16, exact, so a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q8_0 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 34;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    int8_t q[32];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    for (int j = 0; j < 32; ++j) codes[j] = b.q[j];
    set_step(steps, load_f16(b.d));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
