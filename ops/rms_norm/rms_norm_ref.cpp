#include "ops/rms_norm/rms_norm.h"
#include "ops/sums.h"

namespace argon::ops {

void rms_norm_ref(const RmsNormArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* x = a.x + (i / a.group) * a.x_stride + (i % a.group) * a.x_inner;
    float* y = a.y + (i / a.group) * a.y_stride + (i % a.group) * a.y_inner;
    rms_norm_row(x, a.w, y, a.n, a.eps);
  }
}

}  // namespace argon::ops
