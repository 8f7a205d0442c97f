// Parity cases of swiglu.
#pragma once

#include "ops/matmul/matmul_cases.h"
#include "ops/swiglu/swiglu.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<SwigluArgs> swiglu_cases() {
  testing::ParityCases<SwigluArgs> cases;
  for (int64_t F : {1, 8, 13, 32, 128, 640}) {
    cases.push_back({"F " + std::to_string(F), 3, [=](testing::TestArena& a) {
                       const size_t n = static_cast<size_t>(3 * F);
                       float* g = a.floats(n, 8.0f);
                       SwigluArgs s{g, a.floats(n), g, 3, F};
                       if (F % 32 == 0) s.out_q = quantized_output(a, 3 * F);
                       return s;
                     }});
  }
  return cases;
}

}  // namespace argon::ops
