// How many units metal/kernels/memory.metal moves.
#pragma once

#if !defined(__METAL_VERSION__)
#include <cstdint>
#endif

struct MemoryMetalArgs {
  uint64_t n;
};
