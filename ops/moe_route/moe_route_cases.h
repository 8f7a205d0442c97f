// Parity cases of routing: many and few experts, ties, everything equal, one expert per token and all of
// them.
#pragma once

#include "ops/moe_route/moe_route.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<MoeRouteArgs> moe_route_cases() {
  testing::ParityCases<MoeRouteArgs> cases;
  for (const auto& [E, K] :
       {std::pair<int64_t, int64_t>{8, 3}, {16, 4}, {512, 10}, {5, 5}, {1, 1}, {33, 20}, {64, 1}}) {
    for (const bool ties : {false, true}) {
      cases.push_back({"E " + std::to_string(E) + ", K " + std::to_string(K) + (ties ? ", ties" : ""), 7,
                       [=, E = E, K = K](testing::TestArena& a) {
                         const size_t slots = static_cast<size_t>(7 * K);
                         float* logits = a.floats(static_cast<size_t>(7 * E), 2.0f);
                         for (int64_t i = 0; ties && i < 7 * E; ++i)
                           logits[i] = static_cast<float>(a.rng()() % 3) - 1.0f;
                         const float* shared = a.floats(7);
                         int32_t* ids = a.output<int32_t>(slots);
                         float* w = a.output<float>(slots);
                         return MoeRouteArgs{logits, shared, ids, w, a.output<float>(7), 7, E, K};
                       }});
    }
  }
  return cases;
}

inline testing::ParityCases<MoeGroupArgs> moe_group_cases() {
  testing::ParityCases<MoeGroupArgs> cases;
  for (const auto& [E, K] : {std::pair<int64_t, int64_t>{8, 3}, {512, 10}, {1, 1}, {33, 20}}) {
    for (int64_t T : {1, 7, 200, 3001}) {
      cases.push_back({"T " + std::to_string(T) + ", E " + std::to_string(E), T,
                       [=, E = E, K = K](testing::TestArena& a) {
                         const size_t slots = static_cast<size_t>(T * K);
                         const int32_t* ids = a.ints(slots, 0, static_cast<int32_t>(E - 1));
                         int32_t* begin = a.output<int32_t>(static_cast<size_t>(E + 1));
                         int32_t* row = a.output<int32_t>(slots);
                         return MoeGroupArgs{ids, begin, row, a.output<int32_t>(slots), T, E, K};
                       }});
    }
  }
  return cases;
}

}  // namespace argon::ops
