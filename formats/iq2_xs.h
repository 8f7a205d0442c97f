// IQ2_XS: 256 values in runs of 8: a 16-bit word with a 9-bit grid index and a 7-bit sign pattern; 16
// sub-blocks of 16 with 4-bit scales. value = +-grid*(d*(sc+1/2)/4). sw = d*(sc+1/2)/4 (11 + 5 bits, then a
// power of two) is exact, and so is a value (22 bits).
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ2_XS {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 74;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[64];
    uint8_t scales[8];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    for (int k = 0; k < 4; ++k) {
      const uint32_t word = load_u16(b.q + 8 * sub + 2 * k);
      signed_grid8(kGridIq2Xs[word & 511], sign_pattern(word >> 9), codes + 8 * k);
    }
    const float d = load_f16(b.d);
    const uint8_t s = b.scales[sub];
    set_two_steps(steps, d * (static_cast<float>(s & 15) + 0.5f) * 0.25f,
                  d * (static_cast<float>(s >> 4) + 0.5f) * 0.25f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
