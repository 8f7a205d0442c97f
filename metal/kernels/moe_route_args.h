// Sizes of the kernels in metal/kernels/moe_route.metal, as the host hands them over. Letters as in
// ops/moe_route/moe_route.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct MoeRouteMetalArgs {
  uint32_t T, E, K;
};
