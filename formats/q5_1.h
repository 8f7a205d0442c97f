// Q5_1: 32 values of 5 bits with a minimum, bits as in Q5_0. value = q*d + m, so mw = -m; q*d (11 + 5 bits)
// is exact and a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q5_1 {
  ARGON_MEMBER_CONST int kBlockValues = 32;
  ARGON_MEMBER_CONST int kBlockBytes = 24;
  ARGON_MEMBER_CONST int kSteps = 1;
  ARGON_MEMBER_CONST bool kHasMin = true;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t m[2];  // f16
    uint8_t h[4];
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes, "the stored size");

  static ARGON_MATH_FN void unpack32(ARGON_STORED const uint8_t* block, int sub, ARGON_OWN int8_t* codes,
                                     ARGON_OWN Steps* steps) {
    ARGON_STORED const Layout& b = *reinterpret_cast<ARGON_STORED const Layout*>(block);
    static_cast<void>(sub);
    const uint32_t h = load_u32(b.h);
    for (int j = 0; j < 16; ++j) {
      codes[j] = static_cast<int8_t>((b.q[j] & 15) | ((h >> j & 1) << 4));
      codes[j + 16] = static_cast<int8_t>((b.q[j] >> 4) | ((h >> (j + 16) & 1) << 4));
    }
    set_step_min(steps, load_f16(b.d), -load_f16(b.m));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
