// IQ2_S: 256 values in runs of 8: a 10-bit grid index (its top two bits in h) and a byte of signs; 16
// sub-blocks of 16 with 4-bit scales. value = +-grid*(d*(sc+1/2)/4). sw = d*(sc+1/2)/4 (11 + 5 bits, then a
// power of two) is exact, and so is a value (22 bits).
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ2_S {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 82;
  ARGON_MEMBER_CONST int kSteps = 2;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[32];
    uint8_t signs[32];
    uint8_t h[8];
    uint8_t scales[8];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    for (int k = 0; k < 4; ++k) {
      const int index = b.q[4 * sub + k] | (b.h[sub] >> 2 * k & 3) << 8;
      signed_grid8(kGridIq2S[index], b.signs[4 * sub + k], codes + 8 * k);
    }
    const float d = load_f16(b.d);
    const uint8_t s = b.scales[sub];
    set_two_steps(steps, d * (static_cast<float>(s & 15) + 0.5f) * 0.25f,
                  d * (static_cast<float>(s >> 4) + 0.5f) * 0.25f);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
