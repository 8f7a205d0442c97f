// Parity cases of kv_store: both cache types, row lengths round the vector widths.
#pragma once

#include "ops/kv_store/kv_store.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<KvStoreArgs> kv_store_cases() {
  testing::ParityCases<KvStoreArgs> cases;
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int64_t n : {1, 7, 8, 9, 64, 129, 512}) {
      cases.push_back(
          {"n " + std::to_string(n), 5, [=](testing::TestArena& a) {
             float* x = a.floats(static_cast<size_t>(5 * (n + 3)), 100.0f);
             return KvStoreArgs{
                 x, n + 3, a.output<uint8_t>(static_cast<size_t>(9 * n * kv_bytes(type))), type, 5, n, 3};
           }});
    }
  }
  return cases;
}

}  // namespace argon::ops
