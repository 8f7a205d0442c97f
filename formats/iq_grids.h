// The codebooks of the IQ1, IQ2 and IQ3 types, expanded when compiling from the packed tables in
// formats/tables (their source is named there). An entry holds the int8 codes of 8 (IQ3: 4) values, the first
// in the lowest byte; on a little-endian machine a store of the entry writes the codes in order. GPU code can
// include the packed tables itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/block.h"

namespace argon {
namespace grid_detail {

inline constexpr uint16_t kIq2Xxs[256] = {
#include "formats/tables/iq2_xxs.inc"
};
inline constexpr uint16_t kIq2Xs[512] = {
#include "formats/tables/iq2_xs.inc"
};
inline constexpr uint16_t kIq2S[1024] = {
#include "formats/tables/iq2_s.inc"
};
inline constexpr uint16_t kIq1[2048] = {
#include "formats/tables/iq1.inc"
};
inline constexpr uint16_t kIq3Xxs[256] = {
#include "formats/tables/iq3_xxs.inc"
};
inline constexpr uint16_t kIq3S[512] = {
#include "formats/tables/iq3_s.inc"
};

// Eight 2-bit indices into `levels`, or four 3-bit ones.
template <class Word, size_t N, size_t L>
consteval std::array<Word, N> expand(const uint16_t (&packed)[N], const uint8_t (&levels)[L]) {
  constexpr int kBits = L == 8 ? 3 : 2;
  std::array<Word, N> grid{};
  for (size_t i = 0; i < N; ++i) {
    for (size_t k = 0; k < sizeof(Word); ++k) {
      grid[i] |= static_cast<Word>(levels[packed[i] >> kBits * k & (L - 1)]) << 8 * k;
    }
  }
  return grid;
}

inline constexpr uint8_t kLevels2[4] = {8, 25, 43, 0};
inline constexpr uint8_t kLevels1[4] = {0xf8, 0, 8, 0};  // 8 * {-1, 0, 1}
inline constexpr uint8_t kLevels3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr uint8_t kLevels3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace grid_detail

ARGON_TABLE auto kGridIq2Xxs =
    grid_detail::expand<uint64_t>(grid_detail::kIq2Xxs, grid_detail::kLevels2);
ARGON_TABLE auto kGridIq2Xs = grid_detail::expand<uint64_t>(grid_detail::kIq2Xs, grid_detail::kLevels2);
ARGON_TABLE auto kGridIq2S = grid_detail::expand<uint64_t>(grid_detail::kIq2S, grid_detail::kLevels2);
ARGON_TABLE auto kGridIq1 = grid_detail::expand<uint64_t>(grid_detail::kIq1, grid_detail::kLevels1);
ARGON_TABLE auto kGridIq3Xxs =
    grid_detail::expand<uint32_t>(grid_detail::kIq3Xxs, grid_detail::kLevels3Xxs);
ARGON_TABLE auto kGridIq3S = grid_detail::expand<uint32_t>(grid_detail::kIq3S, grid_detail::kLevels3S);

inline namespace ARGON_ISA_NS {

// The eight sign bits of a 7-bit pattern: the eighth makes their number even.
ARGON_MATH_FN uint32_t sign_pattern(uint32_t bits7) {
  uint32_t parity = bits7 ^ bits7 >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return bits7 | (parity & 1) << 7;
}

// The codes of an entry, value k negated where bit k of `signs` is set.
ARGON_MATH_FN void signed_grid8(uint64_t grid, uint32_t signs, int8_t* codes) {
  for (int k = 0; k < 8; ++k) {
    const int code = static_cast<int8_t>(grid >> 8 * k & 0xff);
    codes[k] = static_cast<int8_t>(signs >> k & 1 ? -code : code);
  }
}

// The codes of an entry plus `shift`.
ARGON_MATH_FN void shifted_grid8(uint64_t grid, int shift, int8_t* codes) {
  for (int k = 0; k < 8; ++k)
    codes[k] = static_cast<int8_t>(static_cast<int8_t>(grid >> 8 * k & 0xff) + shift);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
