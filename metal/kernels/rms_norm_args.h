// Sizes of the kernels in metal/kernels/rms_norm.metal, as the host hands them over. Letters as in
// ops/rms_norm/rms_norm.h.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct RmsNormMetalArgs {
  uint32_t x_stride, x_inner;
  uint32_t y_stride, y_inner;
  uint32_t rows, group, n;
  float eps;
};
