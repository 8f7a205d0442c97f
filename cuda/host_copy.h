// Copies of a few small arrays to host memory that the device can write (cudaMallocHost), by one kernel.
#pragma once

#include "cuda/queue.h"

namespace argon::cuda {

struct HostCopy {
  static constexpr int kMost = 8;
  struct Part {
    uint8_t* to;  // of the host
    const uint8_t* from;
    int64_t bytes;
  };
  Part parts[kMost];
  int count = 0;
};

void copy_to_host(Queue& queue, const HostCopy& copy);

}  // namespace argon::cuda
