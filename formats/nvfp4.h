// NVFP4: 64 values of 4 bits (E2M1) in 4 groups of 16, each with an unsigned E4M3 scale. In a group the low
// nibbles of its 8 bytes come first. value = table[q]*(scale/2), the table holds twice the E2M1 values. sw =
// scale/2 is exact (4 bits), and so is a value.
#pragma once

#include "formats/block.h"
#include "formats/mxfp4.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct NVFP4 {
  ARGON_MEMBER_CONST int kBlockValues = 64;
  ARGON_MEMBER_CONST int kBlockBytes = 36;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[4];  // unsigned E4M3
    uint8_t q[32];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    for (int g = 0; g < 2; ++g) {
      ARGON_STORED const uint8_t* q = b.q + 16 * sub + 8 * g;
      for (int j = 0; j < 8; ++j) {
        codes[16 * g + j] = kE2m1Doubled[q[j] & 15];
        codes[16 * g + j + 8] = kE2m1Doubled[q[j] >> 4];
      }
    }
    set_two_steps(steps, ue4m3_to_f32(b.d[2 * sub]) * 0.5f, ue4m3_to_f32(b.d[2 * sub + 1]) * 0.5f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
