// Sizes of a GDN layer's pass, as the host hands them to metal/kernels/gdn_prompt.metal. Letters as in
// ops/gdn/gdn.h; D is 128.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct GdnMetalArgs {
  uint32_t T;
  uint32_t hk;
  uint32_t hv;
  float eps;
};
