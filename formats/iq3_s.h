// IQ3_S: 256 values in sub-blocks of 32: eight 9-bit grid indices of four values each (the top bits in h), a
// sign bit per value, a 4-bit scale. value = +-grid*(d*(1+2*sc)). sw (11 + 5 bits) is exact, and so is a
// value.
#pragma once

#include "formats/block.h"
#include "formats/iq_grids.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ3_S {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 110;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t q[64];
    uint8_t h[8];
    uint8_t signs[32];
    uint8_t scales[4];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 8 * sub;
    const int h = b.h[sub];
    for (int k = 0; k < 4; ++k) {
      const int i0 = q[2 * k] | (h >> 2 * k & 1) << 8;
      const int i1 = q[2 * k + 1] | (h >> (2 * k + 1) & 1) << 8;
      const uint64_t grid = kGridIq3S[i0] | static_cast<uint64_t>(kGridIq3S[i1]) << 32;
      signed_grid8(grid, b.signs[4 * sub + k], codes + 8 * k);
    }
    const int sc = b.scales[sub / 2] >> 4 * (sub & 1) & 15;
    set_step(steps, load_f16(b.d) * static_cast<float>(1 + 2 * sc));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
