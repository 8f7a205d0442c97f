#include "base/exact_math.h"
#include "ops/rope/rope.h"

namespace argon::ops {

void rope_ref(const RopeArgs& a, int64_t begin, int64_t end) {
  const int64_t half = a.rot / 2;
  for (int64_t t = begin; t < end; ++t) {
    const float* c = a.table + (a.position0 + t * a.position_step) * a.rot;
    const float* s = c + half;
    for (int64_t h = 0; h < a.heads; ++h) {
      float* x = a.x + t * a.stride + h * a.inner;
      for (int64_t i = 0; i < half; ++i) {
        const float x1 = x[i], x2 = x[i + half];
        x[i] = fma32(x1, c[i], -(x2 * s[i]));
        x[i + half] = fma32(x2, c[i], x1 * s[i]);
      }
    }
  }
}

}  // namespace argon::ops
