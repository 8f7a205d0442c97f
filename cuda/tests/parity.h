// The parity test of an operation on the device: the arena's arrays are mirrored in device memory with their
// guards, the pointers in the arguments translated, the operation run, and everything copied back and
// compared with the scalar reference by words. Operations with weights run twice: with the weights where they
// are, and placed by the backend, which may lay them out anew. After each comparison a flipped bit must be
// found.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "cuda/cuda_backend.h"
#include "ops/routes.h"
#include "tests/harness/arena.h"
#include "tests/harness/parity_case.h"

namespace argon::testing {

// The one backend of a test program; null (and the tests skip) where there is no device.
inline CudaBackend* cuda_backend() {
  static const std::unique_ptr<CudaBackend> backend = []() -> std::unique_ptr<CudaBackend> {
    if (!cuda_available()) return nullptr;
    auto b = CudaBackend::create(0);
    EXPECT_TRUE(b.ok()) << b.status().message();
    return b.ok() ? std::move(b).value() : nullptr;
  }();
  return backend.get();
}

class Mirror {
 public:
  Mirror(TestArena& arena, CudaBackend& backend) : backend_(backend), arrays_(arena.memories()) {
    size_t bytes = 0;
    for (const auto& a : arrays_) {
      bytes += 256 - (bytes + a.offset) % 256;
      at_.push_back(bytes);
      bytes += a.size;
    }
    if (bytes > buffer().size) {
      if (buffer().data != nullptr) backend.free(buffer().data, buffer().size);
      buffer().size = 2 * bytes;
      buffer().data = static_cast<uint8_t*>(*backend.allocate(buffer().size));
    }
    for (size_t i = 0; i < arrays_.size(); ++i)
      backend.write(buffer().data + at_[i], arrays_[i].memory, arrays_[i].size);
  }
  void copy_back() {
    for (size_t i = 0; i < arrays_.size(); ++i)
      backend_.read(arrays_[i].memory, buffer().data + at_[i], arrays_[i].size);
  }
  // Every word of the arguments that points into an array points into its mirror then.
  template <class Args>
  Args translate(Args args) const {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) % 8 == 0);
    uint64_t words[sizeof(Args) / 8];
    std::memcpy(words, &args, sizeof args);
    for (uint64_t& w : words) {
      for (size_t i = 0; i < arrays_.size(); ++i) {
        const uint64_t begin = reinterpret_cast<uint64_t>(arrays_[i].memory);
        if (w >= begin && w < begin + arrays_[i].size) {
          w = reinterpret_cast<uint64_t>(buffer().data + at_[i]) + (w - begin);
          break;
        }
      }
    }
    std::memcpy(&args, words, sizeof args);
    return args;
  }

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t size = 0;
  };
  static Buffer& buffer() {
    static Buffer b;
    return b;
  }
  CudaBackend& backend_;
  std::vector<TestArena::Memory> arrays_;
  std::vector<size_t> at_;
};

template <class Args>
bool place_weights(Args&, CudaBackend&) {
  return false;
}
// Placed memory must stay as it is, so each case's weights are kept.
inline void place_matrix(ops::WeightMatrix& w, size_t bytes, CudaBackend& backend) {
  static std::deque<std::vector<uint8_t>> kept;
  const auto* data = static_cast<const uint8_t*>(w.data);
  kept.emplace_back(data, data + bytes);
  w.data = *backend.place(kept.back().data(), bytes);
}
inline bool place_weights(ops::MatmulArgs& a, CudaBackend& backend) {
  place_matrix(a.w, static_cast<size_t>(a.w.rows) * a.w.row_bytes, backend);
  return true;
}
inline bool place_weights(ops::MatmulGroupedArgs& a, CudaBackend& backend) {
  place_matrix(a.w.first, static_cast<size_t>(a.w.experts) * a.w.expert_bytes, backend);
  return true;
}

template <class Args>
void check_cuda_parity(const ParityCases<Args>& cases) {
  CudaBackend* backend = cuda_backend();
  if (backend == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  uint64_t seed = 1;
  for (const ParityCase<Args>& c : cases) {
    if (left_out(++seed, cases.size())) continue;
    TestArena reference(seed, 0x7fc0dead);
    const Args reference_args = c.make(reference);
    const auto& routes = ops::routes_of(&reference_args);
    routes[std::size(routes) - 1].run(reference_args, 0, units(reference_args));
    for (const bool placed : {false, true}) {
      TestArena arena(seed, 0x7fc0beef);
      Args args = c.make(arena);
      if (placed && !place_weights(args, *backend)) continue;
      Mirror mirror(arena, *backend);
      backend->run(mirror.translate(args));
      mirror.copy_back();
      const Status s = backend->finish();
      ASSERT_TRUE(s.ok()) << s.message() << ", case " << c.name;
      ASSERT_EQ(arena.difference(reference), "") << "case " << c.name << (placed ? ", placed" : "");
      ASSERT_TRUE(arena.flip_a_bit(seed * 7919));
      ASSERT_NE(arena.difference(reference), "") << "the harness missed a flipped bit";
    }
  }
}

}  // namespace argon::testing
