// Where kernels are put, in order: what the kernels' side sees of a stream. Kernels take one plain struct by
// value, so a launch is data that can be kept, compared and replayed (stream_queue.h).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace argon::cuda {

class Queue {
 public:
  virtual ~Queue() = default;

  template <class P>
  void launch(void (*kernel)(P), dim3 grid, int block, size_t shared, const P& params) {
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= 4096);
    add(reinterpret_cast<const void*>(kernel), grid, block, shared, &params, sizeof(P));
  }
  // Device memory of at least `bytes` that one operation uses as it likes; null after an error.
  virtual void* scratch(size_t bytes) = 0;
  virtual int processors() const = 0;

 protected:
  virtual void add(const void* kernel, dim3 grid, int block, size_t shared, const void* params,
                   size_t bytes) = 0;
};

inline unsigned blocks_for(int64_t n, int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

}  // namespace argon::cuda
