// Q5_K: Q4_K with a fifth bit: bit `sub` of h[j] belongs to value j of that sub-block. sw = d*sc and mw =
// dmin*m are exact, so is q*sw (22 bits), and a value rounds once.
#pragma once

#include "formats/block.h"
#include "formats/q4_k.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q5_K {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 176;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = true;

  struct Layout {
    uint8_t d[2];     // f16
    uint8_t dmin[2];  // f16
    uint8_t scales[12];
    uint8_t h[32];
    uint8_t q[128];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 32 * (sub / 2);
    const int shift = 4 * (sub & 1);
    for (int j = 0; j < 32; ++j) {
      codes[j] = static_cast<int8_t>((q[j] >> shift & 15) | (b.h[j] >> sub & 1) << 4);
    }
    float sc, m;
    k_scale_min(b.scales, sub, &sc, &m);
    set_step_min(steps, load_f16(b.d) * sc, load_f16(b.dmin) * m);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
