// Small arrays of the device to memory of the host in one kernel, so that a meeting of device and host costs
// one launch and not a copy for each.
#include "cuda/device.cuh"
#include "cuda/host_copy.h"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256;

// blockIdx.y is a part; whole words where both ends and the size allow it.
__global__ void copy_parts(HostCopy p) {
  wait_for_earlier();
  const HostCopy::Part& part = p.parts[blockIdx.y];
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, step = int64_t{gridDim.x} * blockDim.x;
  const auto ends = reinterpret_cast<uintptr_t>(part.to) | reinterpret_cast<uintptr_t>(part.from) |
                    static_cast<uintptr_t>(part.bytes);
  if (ends % 4 == 0) {
    for (int64_t i = first; i < part.bytes / 4; i += step)
      reinterpret_cast<uint32_t*>(part.to)[i] = reinterpret_cast<const uint32_t*>(part.from)[i];
  } else {
    for (int64_t i = first; i < part.bytes; i += step) part.to[i] = part.from[i];
  }
}

}  // namespace

void copy_to_host(Queue& queue, const HostCopy& p) {
  int64_t most = 0;
  for (int i = 0; i < p.count; ++i) most = p.parts[i].bytes > most ? p.parts[i].bytes : most;
  const unsigned blocks = blocks_for(most, kThreads * 4);
  if (p.count > 0 && blocks > 0)
    queue.launch_early(copy_parts, dim3(blocks, static_cast<unsigned>(p.count)), kThreads, 0, p);
}

}  // namespace argon::cuda
