// Sizes of the kernels in metal/kernels/gated_residual.metal, as the host hands them over. Letters as in
// ops/gated_residual/gated_residual.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct GatedResidualMetalArgs {
  uint32_t C, H;
  uint32_t n;        // gr_gate: values of lo in all (T*R)
  uint32_t streams;  // gr_gate: values of inj in all (T*C), or 0
};
