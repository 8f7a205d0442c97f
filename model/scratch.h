// Working memory of a forward pass: arrays are carved from one block in order and given back by going back to
// a mark. In counting mode (no block) the same code measures how large the block must be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace argon {

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(void* block) : base_(static_cast<uint8_t*>(block)) {}

  template <class T>
  T* take(int64_t n) {
    const size_t at = used_;
    used_ += (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
    peak_ = std::max(peak_, used_);
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t mark() const { return used_; }
  void release(size_t mark) { used_ = mark; }
  size_t peak() const { return peak_; }

 private:
  uint8_t* base_ = nullptr;
  size_t used_ = 0, peak_ = 0;
};

}  // namespace argon
