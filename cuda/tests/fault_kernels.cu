#include "cuda/tests/fault_kernels.h"

namespace argon::testing {
namespace {

struct StoreParams {
  int* to;
};

__global__ void store_kernel(StoreParams p) { *p.to = 1; }

}  // namespace

void write_nowhere(cuda::Queue& queue) {
  queue.launch(store_kernel, 1, 1, 0, StoreParams{reinterpret_cast<int*>(uintptr_t{64})});
}

void ask_too_much(cuda::Queue& queue) {
  queue.launch(store_kernel, 1, 1, size_t{1} << 20, StoreParams{nullptr});
}

}  // namespace argon::testing
