// The queue of one CUDA stream: launches, copies and fills in order, the first error kept for finish().
#pragma once

#include <string>

#include "base/status.h"
#include "cuda/queue.h"

namespace argon::cuda {

class StreamQueue final : public Queue {
 public:
  StreamQueue() = default;
  ~StreamQueue() override;
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;
  // kResource when the device cannot be used.
  Status open(int device);

  void write(void* to, const void* from_host, size_t bytes);
  void read(void* to_host, const void* from, size_t bytes);
  void copy(void* to, const void* from, size_t bytes);
  void zero(void* to, size_t bytes);

  // Waits; the first error since the last call.
  Status finish();
  cudaStream_t stream() const { return stream_; }
  const std::string& device_name() const { return name_; }

  void* scratch(size_t bytes) override;
  int processors() const override { return processors_; }
  // Keeps the first error.
  bool check(cudaError_t e, const char* what);

 private:
  void add(const void* kernel, dim3 grid, int block, size_t shared, const void* params,
           size_t bytes) override;

  cudaStream_t stream_ = nullptr;
  int processors_ = 1;
  std::string name_;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  Status error_;
};

}  // namespace argon::cuda
