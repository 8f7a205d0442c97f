// Probabilities of the sampler (ops/sample/sample.h), eight at a time.
#include <cmath>

#include "base/exact_math.h"
#include "ops/sample/sample.h"

namespace argon::ops {

void sample_weights_avx2(const SampleWeightsArgs& a, int64_t begin, int64_t end) {
  const float *logits = a.logits, temperature = a.temperature, max = a.max;
  float* p = a.p;
  for (int64_t i = begin; i < end; ++i) {
    const float e = exp32(logits[i] / temperature - max) * 0x1p40f;
    p[i] = std::nearbyint(e >= 0.0f ? e : 0.0f);
  }
}

}  // namespace argon::ops
