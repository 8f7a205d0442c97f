// Q2_K: 256 values of 2 bits in 16 sub-blocks of 16, each with a 4-bit scale and minimum. value = q*(d*sc) -
// dmin*m. sw = d*sc and mw = dmin*m (11 + 4 bits) are exact, so is q*sw, and a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q2_K {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 84;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = true;

  struct Layout {
    uint8_t scales[16];  // low nibble scale, high nibble minimum
    uint8_t q[64];       // per 128 values 32 bytes: 2 bits for each of four runs of 32
    uint8_t d[2];        // f16
    uint8_t dmin[2];     // f16
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 32 * (sub / 4);
    const int shift = 2 * (sub & 3);
    for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>(q[j] >> shift & 3);
    const float d = load_f16(b.d);
    const float dmin = load_f16(b.dmin);
    const uint8_t s0 = b.scales[2 * sub];
    const uint8_t s1 = b.scales[2 * sub + 1];
    set_two_steps(steps, d * static_cast<float>(s0 & 15), d * static_cast<float>(s1 & 15));
    steps->has_min = true;
    steps->mw[0] = dmin * static_cast<float>(s0 >> 4);
    steps->mw[1] = dmin * static_cast<float>(s1 >> 4);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
