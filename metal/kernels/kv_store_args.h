// Sizes of the kernels in metal/kernels/kv_store.metal, as the host hands them over. Letters as in
// ops/kv_store/kv_store.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct KvStoreMetalArgs {
  uint32_t stride;
  uint32_t n;
};
