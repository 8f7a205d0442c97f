// Q4_1: 32 values of 4 bits with a minimum, nibbles as in Q4_0. value = q*d + m, so mw = -m; both are widened
// f16, q*d (11 + 4 bits) is exact and a value rounds once.
#pragma once

#include "formats/block.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct Q4_1 {
  static constexpr int kBlockValues = 32;
  static constexpr int kBlockBytes = 20;
  static constexpr int kSteps = 1;
  static constexpr bool kHasMin = true;

  struct Layout {
    uint8_t d[2];  // f16
    uint8_t m[2];  // f16
    uint8_t q[16];
  };
  static_assert(sizeof(Layout) == kBlockBytes);

  static ARGON_MATH_FN void unpack32(const uint8_t* block, int sub, int8_t* codes, Steps* steps) {
    const Layout& b = *reinterpret_cast<const Layout*>(block);
    static_cast<void>(sub);
    unpack_nibbles(b.q, 0, codes);
    set_step_min(steps, load_f16(b.d), -load_f16(b.m));
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon
