// Q4_K: 256 values of 4 bits in 8 sub-blocks of 32, each with a 6-bit scale and minimum. value = q*(d*sc) -
// dmin*m. sw = d*sc and mw = dmin*m (11 + 6 bits) are exact, so is q*sw (21 bits), and a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

// Sub-scale and sub-minimum `i` (0..7) of Q4_K and Q5_K, 6 bits each. Bytes 0-3 and 4-7 hold scales and
// minima 0-3 in their low 6 bits; bytes 8-11 hold the low nibbles of scales (low) and minima (high) 4-7,
// whose top two bits are the top bits of bytes 0-3 and 4-7.
ARGON_MATH_FN void k_scale_min(ARGON_STORED const uint8_t* s, int i, ARGON_OWN float* scale,
                               ARGON_OWN float* min) {
  const int low = i & 3;
  const int sc = i < 4 ? s[low] & 63 : (s[8 + low] & 15) | (s[low] >> 6) << 4;
  const int m = i < 4 ? s[4 + low] & 63 : (s[8 + low] >> 4) | (s[4 + low] >> 6) << 4;
  *scale = static_cast<float>(sc);
  *min = static_cast<float>(m);
}

struct Q4_K {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 144;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = true;

  struct Layout {
    uint8_t d[2];     // f16
    uint8_t dmin[2];  // f16
    uint8_t scales[12];
    uint8_t q[128];  // 32 bytes hold sub-blocks 2i (low nibbles) and 2i+1 (high)
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 32 * (sub / 2);
    const int shift = 4 * (sub & 1);
    for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>(q[j] >> shift & 15);
    float sc, m;
    k_scale_min(b.scales, sub, &sc, &m);
    set_step_min(steps, load_f16(b.d) * sc, load_f16(b.dmin) * m);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
