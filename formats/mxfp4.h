// MXFP4: 32 values of 4 bits (E2M1), nibbles as in Q4_0, and a shared power of two. value = table[q] *
// 2^(e-128); the table holds twice the E2M1 values. The step is a power of two, so a value is exact; for e <
// 2 it is a subnormal and counts as zero. Source: OCP Microscaling Formats 1.0.
#pragma once

#include "formats/block.h"

namespace argon {

// Twice the values of the 4-bit float E2M1, for MXFP4 and NVFP4.
ARGON_TABLE int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline namespace ARGON_ISA_NS {

struct MXFP4 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 17;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t e;
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    for (int j = 0; j < 16; ++j) {
      codes[j] = kE2m1Doubled[b.q[j] & 15];
      codes[j + 16] = kE2m1Doubled[b.q[j] >> 4];
    }
    set_step(steps, f32_from_bits(b.e < 2 ? 0u : (b.e - 1u) << 23));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
