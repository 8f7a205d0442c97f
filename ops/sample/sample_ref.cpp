#include <cmath>

#include "base/exact_math.h"
#include "ops/sample/sample.h"

namespace argon::ops {

void sample_weights_ref(const SampleWeightsArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float e = exp32(a.logits[i] / a.temperature - a.max) * 0x1p40f;
    a.p[i] = e >= 0.0f ? std::nearbyint(e) : 0.0f;  // inf - inf at extreme temperatures
  }
}

}  // namespace argon::ops
