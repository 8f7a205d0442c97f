// Sizes of a GDN layer's pass, as the host hands them over. Letters as in ops/gdn/gdn.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

// metal/kernels/gdn_prompt.metal: D is 128.
struct GdnMetalArgs {
  uint32_t T;
  uint32_t hk;
  uint32_t hv;
  float eps;
};

// metal/kernels/gdn.metal: any D.
struct GdnAnyMetalArgs {
  uint32_t T;
  uint32_t hk;
  uint32_t hv;
  uint32_t D;
  float eps;
};
