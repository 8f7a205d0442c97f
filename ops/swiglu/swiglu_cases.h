// Parity cases of swiglu.
#pragma once

#include "ops/swiglu/swiglu.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<SwigluArgs> swiglu_cases() {
  testing::ParityCases<SwigluArgs> cases;
  for (int64_t F : {1, 8, 13, 32, 128, 640}) {
    cases.push_back({"F " + std::to_string(F), 3, [=](testing::TestArena& a) {
                       const size_t n = static_cast<size_t>(3 * F);
                       float* g = a.floats(n, 8.0f);
                       return SwigluArgs{g, a.floats(n), g, 3, F};
                     }});
  }
  return cases;
}

}  // namespace argon::ops
