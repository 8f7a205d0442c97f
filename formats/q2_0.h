// Q2_0: 64 values of 2 bits, value j in bits 2*(j%4) of byte j/4. value = (q-1)*d, q in 0..3; exact.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q2_0 {
  ARGON_MEMBER_CONST int kBlockValues = 64;
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
    ARGON_STORED const uint8_t* q = b.q + 8 * sub;
    for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>((q[j / 4] >> 2 * (j & 3) & 3) - 1);
    set_step(steps, load_f16(b.d));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
