// Writes rows into a sequence's cache in the cache's type: dst[position0 + t][i] = x[t][i], narrowed to
// nearest even for f16. Used for keys, values and the indexer's raw keys; attention reads what was stored.
//
// Shapes  x rows of n values, `stride` apart; dst [capacity][n] of `type`.   Units  rows.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "ops/route.h"

namespace argon::ops {

enum class KvType : int { kF32 = 0, kF16 = 1 };
inline int64_t kv_bytes(KvType t) { return t == KvType::kF32 ? 4 : 2; }

struct KvStoreArgs {
  const float* x;
  int64_t stride;
  void* dst;
  KvType type;
  int64_t rows, n, position0;
};

inline int64_t units(const KvStoreArgs& a) { return a.rows; }
void kv_store_ref(const KvStoreArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
