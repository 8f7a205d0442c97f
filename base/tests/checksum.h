// A checksum over float32 results for tests.
#pragma once

#include <cstdint>

#include "base/exact_math.h"

namespace argon::testing {

// The sum over all results of mixed(index, word), modulo 2^64, does not depend on the order in which they are
// visited, so a GPU or numpy can compute it. NaNs count as one word, since their payload is not promised.
ARGON_MATH_FN uint64_t mixed(uint64_t index, uint32_t word) {
  if ((word & 0x7fffffffu) > 0x7f800000u) word = 0x7fc00000u;
  uint64_t z = index * 0x9e3779b97f4a7c15u + word;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace argon::testing
