// A parity case of an operation: ops/<op>/<op>_cases.h lists them, for the parity tests of every backend and
// the benches.
#pragma once

#include <cstdint>
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

}  // namespace argon::testing
