// Sizes of the kernels of Qwen sparse attention, as the host hands them over. Letters as in
// ops/qsa_select/qsa_select.h and ops/qsa_attention/qsa_attention.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct QsaBlockKeysMetalArgs {
  uint32_t first, blocks;
  uint32_t r, di, rot;
  float eps;
};

struct QsaSelectMetalArgs {
  uint64_t stride;  // from a token's scores to the next one's
  uint32_t T, t0;   // the dispatch is for tokens t0 .. T-1 and keeps scores from t0 on
  uint32_t position0;
  uint32_t ni, di, r, budget;
};

struct QsaAttentionMetalArgs {
  uint32_t position0;
  uint32_t nq, nkv, dh, r, budget;
  uint32_t segments;  // split: partial results of a query head
};
