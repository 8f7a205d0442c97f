// IQ1_M: the grid of IQ1_S, with a 3-bit scale per 16 values and a shift sign per 8. Each nibble of h holds
// three index bits and, on top, the sign of the shift. The f16 scale d is spread over the top nibbles of the
// four scale words. value = (grid +- 1/8)*(d*(2*sc+1)), kept as in IQ1_S; exact.
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ1_M {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 56;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t q[32];
    uint8_t h[16];
    uint8_t scales[8];  // four words of 4 x 3 scale bits and a nibble of d
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* s = b.scales;
    const uint32_t d_bits = s[1] >> 4 | (s[3] & 0xf0u) | (s[5] & 0xf0u) << 4 | (s[7] & 0xf0u) << 8;
    const float d = f16_to_f32(static_cast<uint16_t>(d_bits));
    for (int k = 0; k < 4; ++k) {
      const int h = b.h[2 * sub + k / 2] >> 4 * (k & 1) & 15;
      shifted_grid8(kGridIq1[b.q[4 * sub + k] | (h & 7) << 8], h & 8 ? -1 : 1, codes + 8 * k);
    }
    const uint32_t sc = load_u16(s + 2 * (sub / 2)) >> 6 * (sub & 1);
    set_two_steps(steps, d * static_cast<float>(2 * (sc & 7) + 1) * 0.125f,
                  d * static_cast<float>(2 * (sc >> 3 & 7) + 1) * 0.125f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
