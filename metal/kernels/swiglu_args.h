// Sizes of the kernels in metal/kernels/swiglu.metal, as the host hands them over.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct SwigluMetalArgs {
  uint32_t n;  // values
};
