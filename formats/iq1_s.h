// IQ1_S: 256 values in sub-blocks of 32: four 11-bit indices into a grid of -1, 0, 1 (the top three bits in
// h), a 3-bit scale and the sign of a shift of 1/8. value = (grid +- 1/8)*(d*(2*sc+1)), kept as code 8*grid
// +- 1 and sw = d*(2*sc+1)/8, which is exact (11 + 4 bits), and so is a value.
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ1_S {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 50;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[32];
    uint8_t h[16];  // per sub-block a word: 4 x 3 index bits, 3 scale bits, the sign of the shift
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    const uint32_t h = load_u16(b.h + 2 * sub);
    const int shift = h & 0x8000u ? -1 : 1;
    for (int k = 0; k < 4; ++k) {
      shifted_grid8(kGridIq1[b.q[4 * sub + k] | (h >> 3 * k & 7) << 8], shift, codes + 8 * k);
    }
    set_step(steps, load_f16(b.d) * static_cast<float>(2 * (h >> 12 & 7) + 1) * 0.125f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
