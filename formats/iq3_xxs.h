// IQ3_XXS: 256 values in sub-blocks of 32: eight 8-bit grid indices of four values each, and a word with four
// 7-bit sign patterns and a 4-bit scale on top. value = +-grid*(d*(sc+1/2)/2). sw (11 + 5 bits, then a power
// of two) is exact, and so is a value (22 bits).
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ3_XXS {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 98;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[64];
    uint8_t words[32];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 8 * sub;
    const uint32_t word = load_u32(b.words + 4 * sub);
    for (int k = 0; k < 4; ++k) {
      const uint64_t grid = kGridIq3Xxs[q[2 * k]] | static_cast<uint64_t>(kGridIq3Xxs[q[2 * k + 1]]) << 32;
      signed_grid8(grid, sign_pattern(word >> 7 * k & 127), codes + 8 * k);
    }
    set_step(steps, load_f16(b.d) * (static_cast<float>(word >> 28) + 0.5f) * 0.5f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
