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
    add(reinterpret_cast<const void*>(kernel), grid, block, shared, false, &params, sizeof(P));
  }
  // For kernels whose every block calls wait_for_earlier() (device.cuh) before it reads what earlier kernels
  // wrote or writes what they read: it may start while the kernel before it still runs.
  template <class P>
  void launch_early(void (*kernel)(P), dim3 grid, int block, size_t shared, const P& params) {
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= 4096);
    add(reinterpret_cast<const void*>(kernel), grid, block, shared, true, &params, sizeof(P));
  }
  // Device memory of at least `bytes` that one operation uses as it likes; null after an error.
  virtual void* scratch(size_t bytes) = 0;
  virtual int processors() const = 0;
  // Warpgroup instructions where device and code have them (the default); off, the portable kernels run.
  bool uses_groups() const { return uses_groups_; }
  void use_groups(bool on) { uses_groups_ = on; }

 protected:
  virtual void add(const void* kernel, dim3 grid, int block, size_t shared, bool early, const void* params,
                   size_t bytes) = 0;

 private:
  bool uses_groups_ = true;
};

// The architecture that the kernels were compiled for, 90 being the first whose early kernels wait.
int early_code_version();

// Up to kSmallWrite bytes from the host as a kernel's parameters (elementwise.cu).
inline constexpr size_t kSmallWrite = 1024;
void small_write(Queue&, void* to, const void* from_host, size_t bytes);

inline unsigned blocks_for(int64_t n, int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

}  // namespace argon::cuda
