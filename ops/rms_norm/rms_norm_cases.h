// Parity cases of rms_norm: both sums, odd lengths, strided heads, in place.
#pragma once

#include "ops/rms_norm/rms_norm.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<RmsNormArgs> rms_norm_cases() {
  testing::ParityCases<RmsNormArgs> cases;
  for (int64_t n : {1, 7, 31, 32, 33, 64, 128, 256, 511, 512, 513, 640, 2560}) {
    for (int64_t group : {1, 3}) {
      cases.push_back({"n " + std::to_string(n) + ", heads " + std::to_string(group), 5 * group,
                       [=](testing::TestArena& a) {
                         const int64_t rows = 5 * group, stride = group * 2 * n;
                         float* x = a.floats(static_cast<size_t>(5 * stride));
                         return RmsNormArgs{x,     stride, 2 * n, a.floats(static_cast<size_t>(n)),
                                            x,     stride, 2 * n, rows,
                                            group, n,      1e-6f};
                       }});
    }
  }
  return cases;
}

}  // namespace argon::ops
