// Sizes of the kernels in metal/kernels/ngram_embed.metal, as the host hands them over. Letters as in
// ops/ngram_embed/ngram_embed.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct NgramHashMetalArgs {
  uint32_t n, G;
  int32_t eos;
};

struct NgramGateMetalArgs {
  uint32_t C, H;
  float eps;
};

struct NgramConvMetalArgs {
  uint32_t T, channels, taps, n;
};
