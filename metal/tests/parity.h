// What the two parity programs share: buffers with poison and guards, comparison by words, random data, the
// report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "metal/device.h"

namespace argon::metal {

// Device memory of `count` elements between two guards. Inputs are filled, outputs poisoned with a NaN
// pattern, so that a word that a kernel does not write, or writes outside, shows.
template <class T>
class Buffer {
 public:
  Buffer(Device& device, size_t count);
  ~Buffer() { device_.release(base_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }
  Argument argument() const { return Argument::buffer(data_, bytes()); }
  void fill(const std::vector<T>& v);
  void poison();
  bool guards_intact() const;

 private:
  static constexpr size_t kGuard = 256;
  Device& device_;
  std::byte* base_ = nullptr;
  T* data_ = nullptr;
  size_t count_;
};

// Deterministic data. Uniform values; about one in 64 is +0, -0 or so small that products with it are
// subnormal.
std::vector<float> random_floats(uint64_t seed, size_t n, float low, float high);
uint64_t mix(uint64_t x);

// The verdict of one case, made of several comparisons.
class Verdict {
 public:
  template <class T>
  void equal(const char* what, const Buffer<T>& got, const std::vector<T>& wanted) {
    words(what, got.data(), wanted.data(), sizeof(T), wanted.size());
    if (!got.guards_intact()) fail(std::string(what) + ": written outside its buffer");
    if (got.size() != wanted.size()) fail(std::string(what) + ": sizes differ");
  }
  // Words that were copied from a device.
  template <class T>
  void equal(const char* what, const std::vector<T>& got, const std::vector<T>& wanted) {
    if (got.size() != wanted.size()) return fail(std::string(what) + ": sizes differ");
    words(what, got.data(), wanted.data(), sizeof(T), wanted.size());
  }
  void status(const char* what, const Status& s) {
    if (!s.ok()) fail(std::string(what) + ": " + s.message());
  }
  void fail(const std::string& why) {
    if (why_.empty()) why_ = why;
  }
  bool ok() const { return why_.empty(); }
  const std::string& why() const { return why_; }

 private:
  void words(const char* what, const void* got, const void* wanted, size_t width, size_t n);
  std::string why_;
};

// Prints PASS/FAIL lines and keeps them, with tables, for --report.
class Report {
 public:
  explicit Report(std::string title) : title_(std::move(title)) {}
  void line(const std::string& name, const Verdict& v);
  void table(const std::string& caption, const std::vector<std::string>& head,
             const std::vector<std::vector<std::string>>& rows);
  bool all_passed() const { return failed_ == 0 && passed_ > 0; }
  // A Markdown page: machine, commit, cases, tables, verdict.
  Status write(const std::string& path, const std::string& device) const;
  int finish(const std::string& path, const std::string& device) const;  // the exit code

 private:
  std::string title_, cases_, tables_;
  int passed_ = 0, failed_ = 0;
};

// A comparison that cannot fail is an error: flips one bit and demands that it is found.
bool comparison_catches_a_flipped_bit(Device& device);

struct Samples {
  double median, min, max, mean;
};
Samples summarise(std::vector<double> v);
double median_ratio(const std::vector<double>& candidate, const std::vector<double>& baseline);

// Says on standard error that --checks and --backend cuda do not go together; the exit code.
int refuse_checks_on_cuda();

std::string number(double v, int digits);
std::string grouped_digits(uint64_t v);

}  // namespace argon::metal
