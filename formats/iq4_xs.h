// IQ4_XS: 256 values of 4 bits in 8 sub-blocks of 32, table as IQ4_NL, each with a 6-bit scale less 32.
// value = table[q]*(d*sc). sw = d*sc (11 + 6 bits) is exact, and so is a value (24 bits).
#pragma once

#include "formats/block.h"
#include "formats/iq4_nl.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct IQ4_XS {
  ARGON_MEMBER_CONST int kBlockValues = 256;
  ARGON_MEMBER_CONST int kBlockBytes = 136;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = false;

  struct Layout {
    uint8_t d[2];         // f16
    uint8_t scales_h[2];  // two high bits of each scale
    uint8_t scales_l[4];  // four low bits, two scales a byte
    uint8_t q[128];       // 16 bytes a sub-block
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    ARGON_STORED const uint8_t* q = b.q + 16 * sub;
    for (int j = 0; j < 16; ++j) {
      codes[j] = kIq4Values[q[j] & 15];
      codes[j + 16] = kIq4Values[q[j] >> 4];
    }
    const int low = b.scales_l[sub / 2] >> 4 * (sub & 1) & 15;
    const int high = static_cast<int>(load_u16(b.scales_h) >> 2 * sub & 3);
    set_step(steps, load_f16(b.d) * static_cast<float>((low | high << 4) - 32));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
