// Parity cases of sample_weights.
#pragma once

#include "ops/sample/sample.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<SampleWeightsArgs> sample_weights_cases() {
  testing::ParityCases<SampleWeightsArgs> cases;
  for (const float temperature : {0.7f, 30.0f, 1e-38f}) {
    for (const int64_t V : {1, 7, 8, 9, 1000}) {
      cases.push_back(
          {"V " + std::to_string(V) + ", temperature " + std::to_string(temperature), V,
           [=](testing::TestArena& a) {
             const size_t n = static_cast<size_t>(V);
             float* logits = a.floats(n, 8.0f);
             float max = logits[0];
             for (size_t i = 1; i < n; ++i) max = logits[i] > max ? logits[i] : max;
             return SampleWeightsArgs{logits, a.output<float>(n), V, temperature, max / temperature};
           }});
    }
  }
  return cases;
}

}  // namespace argon::ops
