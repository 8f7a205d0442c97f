// Kernels that go wrong, for cuda_fault_test.
#pragma once

#include "cuda/queue.h"

namespace argon::testing {

// Writes where no memory is: the device is lost to the process.
void write_nowhere(cuda::Queue& queue);
// A launch that no device takes.
void ask_too_much(cuda::Queue& queue);

}  // namespace argon::testing
