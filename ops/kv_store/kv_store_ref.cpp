#include "ops/kv_store/kv_store.h"

namespace argon::ops {

void kv_store_ref(const KvStoreArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const float* x = a.x + t * a.stride;
    const int64_t at = (a.position0 + t) * a.n;
    for (int64_t i = 0; i < a.n; ++i) {
      if (a.type == KvType::kF32) {
        static_cast<float*>(a.dst)[at + i] = x[i];
      } else {
        static_cast<uint16_t*>(a.dst)[at + i] = f32_to_f16(x[i]);
      }
    }
  }
}

}  // namespace argon::ops
