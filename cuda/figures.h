// What the CUDA backend takes and likes, for those who plan without a device (`argon inspect`) or without
// CUDA.
#pragma once

#include <cstdint>

namespace argon::cuda {

// Memory in bytes besides what the backend is asked for: the driver's context with the kernels' code and
// stacks, with something to spare (docs/lab/cuda-tiers.md), and the kernels' scratch memory at its most, the
// scores of kernels/qsa_select.cu.
inline constexpr uint64_t kContextBytes = uint64_t{640} << 20, kScratchBytes = uint64_t{256} << 20;
// Tokens from which on a pass gets no faster (docs/lab/cuda.md).
inline constexpr int64_t kBestPass = 4096;

}  // namespace argon::cuda
