#include "base/exact_math.h"
#include "ops/moe_combine/moe_combine.h"

namespace argon::ops {

void moe_combine_ref(const MoeCombineArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t d = 0; d < a.H; ++d) {
      float s = a.sg[t] * a.shared[t * a.H + d];
      for (int64_t k = 0; k < a.K; ++k) {
        const int64_t row = a.slot[t * a.K + k];
        if (row >= 0) s = fma32(a.w[t * a.K + k], a.y[row * a.H + d], s);
      }
      a.out[t * a.H + d] = s;
    }
  }
}

}  // namespace argon::ops
