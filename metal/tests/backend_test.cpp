// The Metal backend beside its operations: memory moved in order with them, weights wrapped where they are
// mapped, errors told once by finish().
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "metal/metal_backend.h"

namespace argon {
namespace {

std::unique_ptr<MetalBackend> open_backend(const metal::DeviceOptions& options = {}) {
  auto b = MetalBackend::create(options);
  EXPECT_TRUE(b.ok()) << b.status().message();
  return std::move(b).value();
}

// h = silu(h)*h in place of `n` floats: work in flight.
void start_work(MetalBackend& b, float* h, int64_t n) { b.run(ops::SwigluArgs{h, h, h, 1, n}); }

class MetalMemory : public ::testing::TestWithParam<bool> {
 protected:
  MetalMemory() {
    metal::DeviceOptions o;
    o.checks = GetParam();
    backend_ = open_backend(o);
  }
  template <class T>
  T* allocate(size_t n) {
    auto p = backend_->allocate(n * sizeof(T));
    EXPECT_TRUE(p.ok());
    return static_cast<T*>(*p);
  }
  std::unique_ptr<MetalBackend> backend_;
};

TEST_P(MetalMemory, MovesBytesInOrderWithTheOperations) {
  for (const size_t n : {size_t{1}, size_t{4}, size_t{52}, size_t{64}, size_t{4099}, size_t{5} << 20}) {
    float* x = allocate<float>(64);
    uint8_t* a = allocate<uint8_t>(n);
    uint8_t* b = allocate<uint8_t>(n + 64);
    std::vector<uint8_t> bytes(n);
    std::iota(bytes.begin(), bytes.end(), uint8_t{3});
    std::vector<uint8_t> found(n + 64);
    for (const size_t shift : {size_t{0}, size_t{4}, size_t{5}}) {
      start_work(*backend_, x, 64);
      std::vector<uint8_t> passing = bytes;
      backend_->write(a, passing.data(), n);
      std::fill(passing.begin(), passing.end(), uint8_t{0});  // the caller's memory is its own again
      backend_->copy(b + shift, a, n);
      backend_->zero(a, n);
      backend_->read(found.data(), b, n + 64);
      EXPECT_EQ(std::memcmp(found.data() + shift, bytes.data(), n), 0) << n << " bytes, shifted by " << shift;
      EXPECT_EQ(found[n + shift], 0);
      start_work(*backend_, x, 64);
      backend_->zero(b + shift, n);
      backend_->read(found.data(), b, n + 64);
      EXPECT_EQ(std::count(found.begin(), found.end(), 0), static_cast<std::ptrdiff_t>(found.size()));
      backend_->read(found.data(), a, n);
      EXPECT_EQ(found[0], 0);
      const Status s = backend_->finish();
      EXPECT_TRUE(s.ok()) << s.message();
    }
    backend_->free(a, n);
    backend_->free(b, n + 64);
    backend_->free(x, 256);
  }
}

// Ranges of one mapped file as weights are placed: neighbours on one page, views that overlap, small ones,
// some again, some after operations have run.
TEST_P(MetalMemory, ReadsPlacedMemoryWhereItIsMapped) {
  const size_t size = size_t{6} << 20;
  void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* file = static_cast<uint8_t*>(map);
  for (size_t i = 0; i < size; ++i) file[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
  ASSERT_EQ(mprotect(map, size, PROT_READ), 0);

  struct Range {
    size_t begin, bytes;
  };
  const size_t big = size_t{300} << 10;
  const std::vector<std::vector<Range>> batches = {
      {{32, big}, {32 + big, 100}, {132 + big, big}, {big / 2, big}},
      {{size_t{2} << 20, big}, {(size_t{2} << 20) + big, 2 * big}, {size_t{4} << 20, big}, {32, big}},
      {{132 + big, 3 * big},
       {(size_t{4} << 20) + big - 4096, big},
       {(size_t{4} << 20) - big, big + 8},
       {77, 5}},
      {{0, size}, {size_t{64} << 10, big}, {size_t{5} << 20, big}}};
  float* x = allocate<float>(64);
  uint8_t* to = allocate<uint8_t>(size);
  for (const std::vector<Range>& batch : batches) {
    std::vector<const void*> placed;
    for (const Range& r : batch) {
      auto p = backend_->place(file + r.begin, r.bytes);
      ASSERT_TRUE(p.ok()) << p.status().message();
      placed.push_back(*p);
      if (r.bytes >= big) {
        EXPECT_EQ(*p, file + r.begin) << "large ranges are not copied";
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      start_work(*backend_, x, 64);
      backend_->zero(to, batch[i].bytes);
      backend_->copy(to, placed[i], batch[i].bytes);
      std::vector<uint8_t> found(batch[i].bytes);
      backend_->read(found.data(), to, found.size());
      const Status s = backend_->finish();
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_EQ(std::memcmp(found.data(), file + batch[i].begin, found.size()), 0) << "range " << i;
    }
  }
  backend_.reset();
  munmap(map, size);
}

INSTANTIATE_TEST_SUITE_P(Forms, MetalMemory, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "Checked" : "Fast"; });

TEST(MetalBackend, TellsTheFirstErrorOnceAndGoesOn) {
  const std::unique_ptr<MetalBackend> b = open_backend();
  auto* x = static_cast<float*>(*b->allocate(256));
  float foreign[64] = {};
  start_work(*b, x, 64);
  start_work(*b, foreign, 64);
  start_work(*b, x, 640);
  const Status s = b->finish();
  EXPECT_EQ(s.code(), Code::kBadInput);
  EXPECT_EQ(s.message().rfind("metal/kernels/swiglu.metal:", 0), 0u) << s.message();
  EXPECT_NE(s.message().find("'g' [[buffer(0)]] points into no buffer of this device"), std::string::npos)
      << s.message();
  start_work(*b, x, 64);
  EXPECT_TRUE(b->finish().ok());
  b->free(x, 256);
}

TEST(MetalBackend, SaysWhichKernelFileIsMissing) {
  metal::DeviceOptions o;
  o.root = "/nonexistent";
  const std::unique_ptr<MetalBackend> b = open_backend(o);
  auto* x = static_cast<float*>(*b->allocate(256));
  start_work(*b, x, 64);
  const Status s = b->finish();
  EXPECT_NE(s.message().find("cannot read '/nonexistent/metal/kernels/swiglu.metal'"), std::string::npos)
      << s.message();
}

}  // namespace
}  // namespace argon
