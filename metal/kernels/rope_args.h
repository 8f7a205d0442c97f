// Sizes of the kernels in metal/kernels/rope.metal, as the host hands them over. Letters as in
// ops/rope/rope.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct RopeMetalArgs {
  uint32_t stride, inner;
  uint32_t rot;
  uint32_t position0, position_step;
};
