// Sizes of the kernels in metal/kernels/prompt.metal, as the host hands them over.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct PromptMetalArgs {
  uint32_t C;       // residual streams
  uint32_t n;       // hidden size
  uint32_t topk;    // slots per token
  uint32_t stream;  // which stream gr_norm_h_stream_out copies
  float eps;
};
