#include "cuda/stream_queue.h"

#include <algorithm>

namespace argon::cuda {
namespace {

std::string mebibytes(size_t bytes) { return std::to_string((bytes + (size_t{1} << 20) - 1) >> 20) + " MiB"; }

}  // namespace

StreamQueue::~StreamQueue() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaFree(scratch_);
  cudaStreamDestroy(stream_);
}

Status StreamQueue::open(int device) {
  cudaDeviceProp p{};
  if (const cudaError_t e = cudaGetDeviceProperties(&p, device); e != cudaSuccess) {
    return resource_error(std::string("no CUDA device ") + std::to_string(device) + ": " +
                          cudaGetErrorString(e));
  }
  if (p.major < 8) {
    return unsupported(std::string(p.name) + " has compute capability " + std::to_string(p.major) + "." +
                       std::to_string(p.minor) + ": wanted 8.0 or newer; use --backend cpu");
  }
  name_ = p.name;
  processors_ = p.multiProcessorCount;
  if (!check(cudaSetDevice(device), "choosing the device") ||
      !check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream")) {
    return finish();
  }
  return {};
}

bool StreamQueue::check(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return true;
  if (error_.ok()) {
    error_ = Status(e == cudaErrorMemoryAllocation ? Code::kResource : Code::kInternal,
                    std::string("CUDA device ") + name_ + ", " + what + ": " + cudaGetErrorString(e));
  }
  return false;
}

void StreamQueue::add(const void* kernel, dim3 grid, int block, size_t shared, const void* params, size_t) {
  if (!error_.ok()) return;
  void* args[] = {const_cast<void*>(params)};
  check(cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(block)), args, shared, stream_),
        "starting a kernel");
}

void StreamQueue::write(void* to, const void* from_host, size_t bytes) {
  if (bytes == 0 || !error_.ok()) return;
  // From pageable memory: the call returns once the bytes are staged, so the caller may reuse them.
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_), "copying to the device");
}

void StreamQueue::read(void* to_host, const void* from, size_t bytes) {
  if (bytes == 0 || !error_.ok()) return;
  if (check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the device")) {
    check(cudaStreamSynchronize(stream_), "computing");
  }
}

void StreamQueue::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || !error_.ok()) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the device");
}

void StreamQueue::zero(void* to, size_t bytes) {
  if (bytes == 0 || !error_.ok()) return;
  check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing memory");
}

void* StreamQueue::scratch(size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  check(cudaStreamSynchronize(stream_), "computing");
  cudaFree(scratch_);
  scratch_ = nullptr;
  scratch_bytes_ = 0;
  const size_t wanted = std::max(bytes, size_t{16} << 20);
  if (const cudaError_t e = cudaMalloc(&scratch_, wanted); e != cudaSuccess) {
    cudaGetLastError();
    scratch_ = nullptr;
    check(e, ("working memory of " + mebibytes(wanted) + "; shorter passes need less").c_str());
    return nullptr;
  }
  scratch_bytes_ = wanted;
  return scratch_;
}

Status StreamQueue::finish() {
  if (error_.ok() && stream_ != nullptr) check(cudaStreamSynchronize(stream_), "computing");
  Status s = std::move(error_);
  error_ = {};
  return s;
}

}  // namespace argon::cuda
