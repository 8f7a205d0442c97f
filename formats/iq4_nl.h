// IQ4_NL: 32 values of 4 bits, nibbles as in Q4_0, through a table of 16 int8 values. value = table[q]*d; the
// product (11 + 7 bits) is exact.
#pragma once

#include "formats/block.h"

namespace argon {

// The 16 values of IQ4_NL and IQ4_XS (data of the published format).
ARGON_TABLE int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

inline namespace ARGON_ISA_NS {

struct IQ4_NL {
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
    for (int j = 0; j < 16; ++j) {
      codes[j] = kIq4Values[b.q[j] & 15];
      codes[j + 16] = kIq4Values[b.q[j] >> 4];
    }
    set_step(steps, load_f16(b.d));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
