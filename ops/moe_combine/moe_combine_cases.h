// Parity cases of the combine: 1 to 20 slots, absent ones anywhere, all absent.
#pragma once

#include "ops/moe_combine/moe_combine.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<MoeCombineArgs> moe_combine_cases() {
  testing::ParityCases<MoeCombineArgs> cases;
  for (int64_t H : {1, 128, 129, 256, 2560}) {
    for (int64_t K : {1, 4, 10, 20}) {
      for (int absent : {0, 3, 1}) {  // none, one in three, all
        cases.push_back(
            {"H " + std::to_string(H) + ", K " + std::to_string(K) + ", absent " + std::to_string(absent), 3,
             [=](testing::TestArena& a) {
               const auto n = [](int64_t v) { return static_cast<size_t>(v); };
               const float* y = a.floats(n(3 * K * H));
               int32_t* slot = a.ints(n(3 * K), 0, static_cast<int32_t>(3 * K - 1));
               for (int64_t i = 0; absent > 0 && i < 3 * K; ++i) {
                 if (a.rng()() % static_cast<uint64_t>(absent) == 0) slot[i] = -1;
               }
               const float* w = a.uniform(n(3 * K), 0.0f, 1.0f);
               const float* shared = a.floats(n(3 * H));
               const float* sg = a.uniform(3, 0.0f, 1.0f);
               return MoeCombineArgs{y, slot, w, shared, sg, a.output<float>(n(3 * H)), 3, K, H};
             }});
      }
    }
  }
  return cases;
}

}  // namespace argon::ops
