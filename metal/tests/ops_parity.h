// The parity test of an operation on Metal kernels: the arena's arrays are mirrored in the device's memory
// with their guards, the pointers in the arguments translated, the operation run, and everything copied back
// and compared with the scalar reference by words. On the executor some cases run again with every access
// checked. After each comparison a flipped bit must be found.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "metal/metal_backend.h"
#include "ops/routes.h"
#include "tests/harness/arena.h"
#include "tests/harness/parity_case.h"

namespace argon::testing {

// The two backends of a test program; null (and the tests skip) where there is no device.
inline MetalBackend* metal_backend(bool checks) {
  const auto open = [](bool checked) -> std::unique_ptr<MetalBackend> {
    if (!metal_available()) return nullptr;
    metal::DeviceOptions o;
    o.checks = checked;
    auto b = MetalBackend::create(o);
    EXPECT_TRUE(b.ok()) << b.status().message();
    return b.ok() ? std::move(b).value() : nullptr;
  };
  static const std::unique_ptr<MetalBackend> fast = open(false);
  static const std::unique_ptr<MetalBackend> checked = open(true);
  return checks ? checked.get() : fast.get();
}

class MetalMirror {
 public:
  MetalMirror(TestArena& arena, MetalBackend& backend) : backend_(backend), arrays_(arena.memories()) {
    size_t bytes = 0;
    for (const auto& a : arrays_) {
      bytes += 256 - (bytes + a.offset) % 256;
      at_.push_back(bytes);
      bytes += a.size;
    }
    bytes_ = bytes;
    data_ = static_cast<uint8_t*>(*backend.allocate(bytes));
    for (size_t i = 0; i < arrays_.size(); ++i)
      backend.write(data_ + at_[i], arrays_[i].memory, arrays_[i].size);
  }
  ~MetalMirror() { backend_.free(data_, bytes_); }
  MetalMirror(const MetalMirror&) = delete;
  MetalMirror& operator=(const MetalMirror&) = delete;

  void copy_back() {
    for (size_t i = 0; i < arrays_.size(); ++i)
      backend_.read(arrays_[i].memory, data_ + at_[i], arrays_[i].size);
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
          w = reinterpret_cast<uint64_t>(data_ + at_[i]) + (w - begin);
          break;
        }
      }
    }
    std::memcpy(&args, words, sizeof args);
    return args;
  }

 private:
  MetalBackend& backend_;
  std::vector<TestArena::Memory> arrays_;
  std::vector<size_t> at_;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// Cases 0, step, 2*step, ... of `cases` run on the executor's checked form too (which is some hundred times
// slower); 0: none.
template <class Args>
void check_metal_parity(const ParityCases<Args>& cases, size_t step) {
  if (metal_backend(false) == nullptr) GTEST_SKIP() << "no GPU, and no executor was built";
  for (size_t i = 0; i < cases.size(); ++i) {
    const ParityCase<Args>& c = cases[i];
    const uint64_t seed = i + 1;
    TestArena reference(seed, 0x7fc0dead);
    const Args reference_args = c.make(reference);
    const auto& routes = ops::routes_of(&reference_args);
    routes[std::size(routes) - 1].run(reference_args, 0, units(reference_args));
    for (const bool checked : {false, true}) {
      MetalBackend& backend = *metal_backend(checked);
      if (checked && (step == 0 || i % step != 0 || backend.launcher().device().is_gpu())) continue;
      TestArena arena(seed, 0x7fc0beef);
      const Args args = c.make(arena);
      MetalMirror mirror(arena, backend);
      backend.run(mirror.translate(args));
      mirror.copy_back();
      const Status s = backend.finish();
      ASSERT_TRUE(s.ok()) << s.message() << ", case " << c.name << (checked ? ", checked" : "");
      ASSERT_EQ(arena.difference(reference), "") << "case " << c.name << (checked ? ", checked" : "");
      ASSERT_TRUE(arena.flip_a_bit(seed * 7919));
      ASSERT_NE(arena.difference(reference), "") << "the harness missed a flipped bit";
    }
  }
}

}  // namespace argon::testing
