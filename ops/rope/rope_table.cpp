#include "base/exact_trig.h"
#include "ops/rope/rope.h"

namespace argon::ops {

void rope_fill(float* table, int64_t first, int64_t count, int64_t rot, float base) {
  const int64_t half = rot / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double theta = static_cast<double>(rope_theta(base, i, rot));
    for (int64_t p = 0; p < count; ++p) {
      const double angle = static_cast<double>(first + p) * theta;
      table[p * rot + i] = static_cast<float>(exact_cos(angle));
      table[p * rot + half + i] = static_cast<float>(exact_sin(angle));
    }
  }
}

}  // namespace argon::ops
