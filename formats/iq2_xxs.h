// IQ2_XXS: 256 values in sub-blocks of 32: four 8-bit grid indices, then a word with four 7-bit sign patterns
// and a 4-bit scale on top. value = +-grid*(d*(sc+1/2)/4). sw = d*(sc+1/2)/4 (11 + 5 bits, then a power of
// two) is exact, and so is a value (22 bits).
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ2_XXS {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 66;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[64];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 8 * sub;
    const uint32_t word = load_u32(q + 4);
    for (int k = 0; k < 4; ++k)
      signed_grid8(kGridIq2Xxs[q[k]], sign_pattern(word >> 7 * k & 127), codes + 8 * k);
    set_step(steps, load_f16(b.d) * (static_cast<float>(word >> 28) + 0.5f) * 0.25f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
