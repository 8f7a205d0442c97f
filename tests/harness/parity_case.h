// A parity case of an operation: ops/<op>/<op>_cases.h lists them, for the parity tests of every backend and
// the benches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/harness/arena.h"

namespace argon::testing {

template <class Args>
struct ParityCase {
  std::string name;
  int64_t rows;  // what pick_route is asked with (ops/route.h)
  std::function<Args(TestArena&)> make;
};

template <class Args>
using ParityCases = std::vector<ParityCase<Args>>;

// Where it is slow, under an emulator or a sanitizer, ARGON_PARITY_EVERY=n takes one case in n of many.
inline bool left_out(uint64_t index, size_t cases) {
  const char* n = std::getenv("ARGON_PARITY_EVERY");
  const uint64_t every = n == nullptr ? 1 : std::max<uint64_t>(1, std::strtoull(n, nullptr, 10));
  return index % every != 0 && cases >= every;
}

}  // namespace argon::testing
