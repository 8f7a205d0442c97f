// The codebooks of the IQ1, IQ2 and IQ3 types, expanded when compiling from the packed tables in
// formats/tables (their source is named there). An entry holds the int8 codes of 8 (IQ3: 4) values, the first
// in the lowest byte; on a little-endian machine a store of the entry writes the codes in order.
#pragma once

#include "formats/block.h"

namespace argon {
namespace grid_detail {

// Eight 2-bit indices into the 4 bytes of `levels`.
constexpr uint64_t expand8(uint32_t packed, uint32_t levels) {
  uint64_t grid = 0;
  for (int k = 0; k < 8; ++k) {
    const uint32_t index = packed >> 2 * k & 3;
    grid |= static_cast<uint64_t>(levels >> 8 * index & 0xff) << 8 * k;
  }
  return grid;
}
// Four 3-bit indices into the 8 bytes of `levels`.
constexpr uint32_t expand4(uint32_t packed, uint64_t levels) {
  uint32_t grid = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t index = packed >> 3 * k & 7;
    grid |= static_cast<uint32_t>(levels >> 8 * index & 0xff) << 8 * k;
  }
  return grid;
}

// The levels of each codebook, the first in the lowest byte.
constexpr uint32_t levels2() { return 0x002b1908u; }              // 8, 25, 43
constexpr uint32_t levels1() { return 0x000800f8u; }              // 8 * {-1, 0, 1}
constexpr uint64_t levels3_xxs() { return 0x3e342c241c140c04u; }  // 4, 12, 20, 28, 36, 44, 52, 62
constexpr uint64_t levels3_s() { return 0x0f0d0b0907050301u; }    // 1, 3, ... 15

}  // namespace grid_detail

#define E(x) grid_detail::expand8(x, grid_detail::levels2())
ARGON_TABLE uint64_t kGridIq2Xxs[256] = {
#include "formats/tables/iq2_xxs.inc"
};
ARGON_TABLE uint64_t kGridIq2Xs[512] = {
#include "formats/tables/iq2_xs.inc"
};
ARGON_TABLE uint64_t kGridIq2S[1024] = {
#include "formats/tables/iq2_s.inc"
};
#undef E
#define E(x) grid_detail::expand8(x, grid_detail::levels1())
ARGON_TABLE uint64_t kGridIq1[2048] = {
#include "formats/tables/iq1.inc"
};
#undef E
#define E(x) grid_detail::expand4(x, grid_detail::levels3_xxs())
ARGON_TABLE uint32_t kGridIq3Xxs[256] = {
#include "formats/tables/iq3_xxs.inc"
};
#undef E
#define E(x) grid_detail::expand4(x, grid_detail::levels3_s())
ARGON_TABLE uint32_t kGridIq3S[512] = {
#include "formats/tables/iq3_s.inc"
};
#undef E

inline namespace ARGON_ISA_NS {

// The eight sign bits of a 7-bit pattern: the eighth makes their number even.
ARGON_MATH_FN uint32_t sign_pattern(uint32_t bits7) {
  uint32_t parity = bits7 ^ bits7 >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return bits7 | (parity & 1) << 7;
}

// The codes of an entry, value k negated where bit k of `signs` is set.
ARGON_MATH_FN void signed_grid8(uint64_t grid, uint32_t signs, ARGON_OWN int8_t* codes) {
  for (int k = 0; k < 8; ++k) {
    const int code = static_cast<int8_t>(grid >> 8 * k & 0xff);
    codes[k] = static_cast<int8_t>(signs >> k & 1 ? -code : code);
  }
}

// The codes of an entry plus `shift`.
ARGON_MATH_FN void shifted_grid8(uint64_t grid, int shift, ARGON_OWN int8_t* codes) {
  for (int k = 0; k < 8; ++k)
    codes[k] = static_cast<int8_t>(static_cast<int8_t>(grid >> 8 * k & 0xff) + shift);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
