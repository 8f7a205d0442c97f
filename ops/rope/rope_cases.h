// Parity cases of rope: rotary widths below and at the head size, several heads, positions with a step.
#pragma once

#include "ops/rope/rope.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<RopeArgs> rope_cases() {
  testing::ParityCases<RopeArgs> cases;
  for (int64_t rot : {2, 8, 10, 16, 64, 128}) {
    for (int64_t heads : {1, 4}) {
      cases.push_back(
          {"rot " + std::to_string(rot) + ", heads " + std::to_string(heads), 6, [=](testing::TestArena& a) {
             const int64_t dh = rot + 6, stride = heads * dh + 3;
             std::vector<float> table(static_cast<size_t>(40 * rot));
             rope_fill(table.data(), 0, 40, rot, 1e7f);
             return RopeArgs{
                 a.floats(static_cast<size_t>(6 * stride)), stride, dh, 6, heads, a.copy(table), rot, 7, 4};
           }});
    }
  }
  return cases;
}

}  // namespace argon::ops
