// A CpuBackend that behaves like a GPU, to catch what works only where memory is shared and calls are done at
// once. Its pointers cannot be followed by anyone else (they are shifted to where no memory is), it cannot be
// given pointers of the host, and nothing happens before somebody waits: memory of allocate_host is read as
// late as allowed. Every operation's arguments are plain data, so their pointers are found by value.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "cpu/cpu_backend.h"

namespace argon::testing {

class SeparateDevice final : public ops::Backend {
 public:
  explicit SeparateDevice(int threads) : cpu_(threads, detect_isa()) {}
  ~SeparateDevice() override {
    EXPECT_TRUE(live_.empty()) << live_.size() << " blocks of device memory were not freed";
    EXPECT_TRUE(host_.empty()) << host_.size() << " blocks of host memory were not freed";
  }

  std::string name() const override { return "separate"; }
  uint64_t bytes() const { return bytes_; }  // allocated and placed
  // The next `allocate` fails.
  void fail_after(int64_t allocations) { fail_after_ = allocations; }

  Result<void*> allocate(size_t bytes) override {
    if (fail_after_ >= 0 && fail_after_-- == 0) return resource_error("no memory, as the test wants it");
    auto& block = live_.emplace_back(std::max<size_t>(bytes / 64 + 1, 1));
    bytes_ += bytes;
    return fake(block.data());
  }
  void free(void* p, size_t bytes) override {
    settle();
    bytes_ -= bytes;
    const size_t n = live_.size();
    std::erase_if(live_, [&](const Block& b) { return fake(b.data()) == p; });
    EXPECT_EQ(live_.size(), n - 1) << "freed what was not allocated";
  }
  Result<const void*> place(const void* host, size_t bytes) override {
    auto& block = placed_[host];
    if (block.empty()) bytes_ += bytes;
    block.resize(bytes / 64 + 1);
    std::memcpy(block.data(), host, bytes);
    return static_cast<const void*>(fake(block.data()));
  }
  void write(void* to, const void* from_host, size_t bytes) override {
    EXPECT_FALSE(is_fake(from_host)) << "write from device memory";
    if (in_host_block(from_host)) {
      queue_.push_back([=, this] { std::memcpy(real(to), from_host, bytes); });
    } else {
      const auto* p = static_cast<const std::byte*>(from_host);
      queue_.push_back([this, to, copy = std::vector<std::byte>(p, p + bytes)] {
        std::memcpy(real(to), copy.data(), copy.size());
      });
    }
  }
  void read(void* to_host, const void* from, size_t bytes) override {
    settle();
    if (bytes > 0) std::memcpy(to_host, real(from), bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    queue_.push_back([=, this] { std::memcpy(real(to), real(from), bytes); });
  }
  void zero(void* to, size_t bytes) override {
    queue_.push_back([=, this] { std::memset(real(to), 0, bytes); });
  }
  Result<void*> allocate_host(size_t bytes) override {
    auto p = Backend::allocate_host(bytes);
    if (p.ok()) {
      host_[*p] = bytes;
      std::memset(*p, 0x5a, bytes);
    }
    return p;
  }
  void free_host(void* p, size_t bytes) override {
    EXPECT_TRUE(queue_.empty()) << "host memory is freed while the device may still copy it";
    EXPECT_EQ(host_.erase(p), 1u);
    Backend::free_host(p, bytes);
  }
  void read_begin(std::span<const ops::ReadPart> parts) override {
    for (const ops::ReadPart& p : parts) {
      EXPECT_TRUE(in_host_block(p.to_host)) << "read_begin into other than allocate_host's memory";
      queue_.push_back([this, p] { std::memcpy(p.to_host, real(p.from), p.bytes); });
    }
    until_ = queue_.size();
  }
  // As late as allowed: only what was asked for before read_begin.
  void read_end() override {
    for (size_t i = 0; i < until_; ++i) queue_[i]();
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(until_));
    until_ = 0;
  }
  Status finish() override {
    if (!fault_.ok() && finishes_before_fault_-- == 0) {
      queue_.clear();  // what was asked for is lost
      until_ = 0;
      return std::exchange(fault_, Status());
    }
    settle();
    return {};
  }
  // What a later finish() will say, the next one or one after it.
  void set_fault(Status s, int finishes_before = 0) {
    fault_ = std::move(s);
    finishes_before_fault_ = finishes_before;
  }

  void run(const ops::QuantizeArgs& a) override { later(a); }
  void run(const ops::MatmulArgs& a) override { later(a); }
  void run(const ops::MatmulGroupedArgs& a) override { later(a); }
  void run(const ops::RmsNormArgs& a) override { later(a); }
  void run(const ops::RopeArgs& a) override { later(a); }
  void run(const ops::KvStoreArgs& a) override { later(a); }
  void run(const ops::MoeCombineArgs& a) override { later(a); }
  void run(const ops::SwigluArgs& a) override { later(a); }
  void run(const ops::EmbedArgs& a) override { later(a); }
  void run(const ops::QsaAttentionArgs& a) override { later(a); }
  void run(const ops::GrNormArgs& a) override { later(a); }
  void run(const ops::GrApplyArgs& a) override { later(a); }
  void run(const ops::GrGateArgs& a) override { later(a); }
  void run(const ops::GrMixArgs& a) override { later(a); }
  void run(const ops::GdnPreArgs& a) override { later(a); }
  void run(const ops::GdnScanArgs& a) override { later(a); }
  void run(const ops::GdnPostArgs& a) override { later(a); }
  void run(const ops::QsaBlockKeysArgs& a) override { later(a); }
  void run(const ops::QsaSelectArgs& a) override { later(a); }
  void run(const ops::MoeRouteArgs& a) override { later(a); }
  void run(const ops::MoeGroupArgs& a) override { later(a); }
  void run(const ops::NgramHashArgs& a) override { later(a); }
  void run(const ops::NgramGateArgs& a) override { later(a); }
  void run(const ops::NgramConvArgs& a) override { later(a); }
  bool can_compute(WeightType type) const override { return cpu_.can_compute(type); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  using Block = std::vector<Line>;

  // User addresses are below 2^47; these are above.
  static constexpr uint64_t kShift = uint64_t{1} << 47;
  static void* fake(const void* p) { return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(p) + kShift); }
  static bool is_fake(const void* p) {
    const auto v = reinterpret_cast<uint64_t>(p);
    return v >> 47 == 1;
  }
  static std::byte* real(const void* p) {
    EXPECT_TRUE(is_fake(p)) << "the device is given a pointer of the host";
    return reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(p) - kShift);
  }
  bool in_host_block(const void* p) const {
    const auto at = host_.upper_bound(const_cast<void*>(p));
    if (at == host_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(at);
    return p < static_cast<const std::byte*>(begin) + bytes;
  }
  void settle() {
    for (const auto& f : queue_) f();
    queue_.clear();
    until_ = 0;
  }
  template <class Args>
  void later(const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) % 8 == 0);
    uint64_t words[sizeof(Args) / 8];
    std::memcpy(words, &args, sizeof args);
    for (uint64_t& w : words) {
      // Where mapped memory and the heap are. Half of a word may be padding that holds what the stack held
      // before, the other half is then a small number.
      const bool of_the_host = w >> 47 == 0 && w >> 44 != 0 && (w & 0xffffffff) > 0xffff;
      EXPECT_FALSE(of_the_host) << "the device is given a pointer of the host";
      if (w >> 47 == 1) w -= kShift;
    }
    Args own = args;
    std::memcpy(&own, words, sizeof own);
    queue_.push_back([this, own] { cpu_.run(own); });
  }

  CpuBackend cpu_;
  std::vector<Block> live_;
  std::map<const void*, Block> placed_;
  std::map<void*, size_t> host_;
  std::vector<std::function<void()>> queue_;
  size_t until_ = 0;
  uint64_t bytes_ = 0;
  int64_t fail_after_ = -1;
  Status fault_;
  int finishes_before_fault_ = 0;
};

}  // namespace argon::testing
