// Device memory and contests of the parity programs on CUDA (prompt_route.h).
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/tests/prompt_route.h"
#include "metal/tests/parity.h"

namespace argon::testing {

// `count` elements between two guards, poisoned until they are filled or written by a kernel.
template <class T>
class DeviceArray {
 public:
  DeviceArray(CudaBackend& b, size_t count) : b_(b), count_(count), host_(kGuard * 2 + bytes()) {
    Result<void*> p = b.allocate(host_.size());
    if (!p.ok()) {
      std::fprintf(stderr, "%s\n", p.status().message().c_str());
      std::exit(1);
    }
    base_ = static_cast<std::byte*>(*p);
    poison();
  }
  ~DeviceArray() { b_.free(base_, host_.size()); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return reinterpret_cast<T*>(base_ + kGuard); }
  size_t bytes() const { return count_ * sizeof(T); }
  void poison() {
    for (size_t i = 0; i < host_.size(); ++i) host_[i] = i % 4 == 3 ? std::byte{0x7f} : std::byte{0xd5};
    b_.write(base_, host_.data(), host_.size());
  }
  void fill(const std::vector<T>& v) { b_.write(data(), v.data(), std::min(count_, v.size()) * sizeof(T)); }
  // What it holds; `v` fails where a guard was written.
  std::vector<T> read(const char* what, metal::Verdict& v) {
    std::vector<std::byte> now(host_.size());
    b_.read(now.data(), base_, now.size());
    v.status(what, b_.finish());
    for (size_t i = 0; i < kGuard; ++i) {
      const size_t j = kGuard + bytes() + i;
      if (now[i] != host_[i] || now[j] != host_[j])
        v.fail(std::string(what) + ": written outside its buffer");
    }
    std::vector<T> got(count_);
    std::memcpy(got.data(), now.data() + kGuard, bytes());
    return got;
  }

 private:
  static constexpr size_t kGuard = 256;
  CudaBackend& b_;
  size_t count_;
  std::vector<std::byte> host_;  // poison and guards
  std::byte* base_ = nullptr;
};

struct DeviceQuantized {
  DeviceQuantized(CudaBackend& b, size_t n) : codes(b, n), d(b, n / 32), sums(b, n / 16) {}
  ops::QuantizedRows rows() const { return {codes.data(), d.data(), sums.data()}; }
  void poison() { codes.poison(), d.poison(), sums.poison(); }
  // Against the reference's form of x.
  void compare(const char* what, const std::vector<float>& x, metal::Verdict& v) {
    std::vector<int8_t> c(x.size());
    std::vector<float> steps(x.size() / 32);
    std::vector<int16_t> s(x.size() / 16);
    const auto n = static_cast<int64_t>(x.size());
    ops::quantize_ref({x.data(), {c.data(), steps.data(), s.data()}, 1, n}, 0, 1);
    v.equal(what, codes.read(what, v), c);
    v.equal(what, d.read(what, v), steps);
    v.equal(what, sums.read(what, v), s);
  }
  DeviceArray<int8_t> codes;
  DeviceArray<float> d;
  DeviceArray<int16_t> sums;
};

// Two ways to the same words, timed against each other.
struct Contest {
  std::string title, kept, other;
  std::function<void()> run[2];  // kept, other
};

// Milliseconds of `calls` calls each, in `samples` alternating pairs after one that warms up; `reset` goes
// before each. A row of the table: T, title, names, medians with ranges, median ratio kept / other.
inline std::vector<std::string> compete(CudaBackend& b, uint32_t T, const Contest& c, int calls, int samples,
                                        const std::function<void()>& reset) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> ms[2];
  for (int sample = -1; sample < samples; ++sample) {
    for (int side = 0; side < 2; ++side) {
      reset();
      b.queue().flush();
      cudaEventRecord(begin, b.queue().stream());
      for (int i = 0; i < calls; ++i) c.run[side]();
      b.queue().flush();
      cudaEventRecord(end, b.queue().stream());
      static_cast<void>(b.finish());
      float t = 0;
      cudaEventElapsedTime(&t, begin, end);
      if (sample >= 0) ms[side].push_back(static_cast<double>(t));
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  const auto text = [](const std::vector<double>& x) {
    const metal::Samples s = metal::summarise(x);
    return metal::number(s.median, 3) + " (" + metal::number(s.min, 3) + " to " + metal::number(s.max, 3) +
           ")";
  };
  return {std::to_string(T),
          c.title,
          c.kept,
          text(ms[0]),
          c.other,
          text(ms[1]),
          metal::number(metal::median_ratio(ms[0], ms[1]), 4)};
}

inline const std::vector<std::string>& contest_head() {
  static const std::vector<std::string> head = {
      "T", "kernel", "kept", "ms", "other", "ms", "median ratio of pairs"};
  return head;
}

// The backend; without one, a message and the program's exit code in `code`.
inline std::unique_ptr<CudaBackend> open_cuda(int& code) {
  if (!cuda_available()) {
    std::fprintf(stderr, "no CUDA device of compute capability 8.0 or newer: --backend cuda needs one\n");
    return code = kNoDevice, nullptr;
  }
  Result<std::unique_ptr<CudaBackend>> b = CudaBackend::create(0);
  if (b.ok()) return std::move(b).value();
  std::fprintf(stderr, "%s\n", b.status().message().c_str());
  return code = 1, nullptr;
}

// The harness itself: a flipped bit and a write outside must be found.
inline void check_harness(CudaBackend& b, metal::Report& report) {
  metal::Verdict same, flipped, outside, self;
  std::vector<float> v = metal::random_floats(1, 1000, -1.0f, 1.0f);
  DeviceArray<float> a(b, v.size());
  a.fill(v);
  same.equal("self", a.read("self", same), v);
  uint32_t word = 0;
  std::memcpy(&word, &v[777], 4);
  word ^= 1u;
  std::memcpy(&v[777], &word, 4);
  flipped.equal("self", a.read("self", flipped), v);
  b.write(a.data() + v.size(), v.data(), 4);
  a.read("self", outside);
  if (!same.ok() || flipped.ok() || outside.ok()) self.fail("a flipped bit or a write outside went unseen");
  report.line("the comparison itself", self);
}

}  // namespace argon::testing
