#include "base/exact_math.h"
#include "ops/swiglu/swiglu.h"

namespace argon::ops {

void swiglu_ref(const SwigluArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin * a.F; i < end * a.F; ++i) a.h[i] = silu32(a.g[i]) * a.u[i];
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

}  // namespace argon::ops
