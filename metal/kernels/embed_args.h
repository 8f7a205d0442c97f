// Sizes of the kernels in metal/kernels/embed.metal, as the host hands them over. Letters as in
// ops/embed/embed.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct EmbedMetalArgs {
  uint64_t row_bytes;
  uint32_t K, copies;
};
