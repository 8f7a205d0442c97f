// Memory of a backend, freed with the object.
#pragma once

#include <cstddef>
#include <utility>

#include "ops/backend_memory.h"

namespace argon::ops {

class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> create(BackendMemory& backend, size_t bytes) {
    auto p = backend.allocate(bytes);
    if (!p.ok()) return p.status();
    Buffer b;
    b.backend_ = &backend;
    b.data_ = *p;
    b.bytes_ = bytes;
    return b;
  }
  Buffer(Buffer&& o) noexcept { *this = std::move(o); }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(backend_, o.backend_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) backend_->free(data_, bytes_);
  }

  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  BackendMemory* backend_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace argon::ops
