// The executor's checks, each on a kernel broken on purpose, and its library, each function against plain
// arithmetic.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "base/half.h"
#include "metal/device.h"

namespace argon::metal {
namespace {

std::unique_ptr<Device> open_device(bool checks) {
  DeviceOptions o;
  o.checks = checks;
  o.threads = 2;
  Result<std::unique_ptr<Device>> d = Device::open(o);
  EXPECT_TRUE(d.ok()) << d.status().message();
  return std::move(*d);
}

template <class T>
T* allocate(Device& d, size_t n) {
  Result<void*> p = d.allocate(n * sizeof(T));
  EXPECT_TRUE(p.ok());
  return static_cast<T*>(*p);
}

constexpr size_t kThreads = 128;  // two threadgroups of 64

// Runs `entry` of a file with x and y of 128 floats; the message of what went wrong, or "".
std::string run_broken(Device& d, const std::string& path, const std::string& entry = "broken") {
  Result<Pipeline> p = d.pipeline(path, entry, {});
  if (!p.ok()) return p.status().message();
  float* x = allocate<float>(d, kThreads);
  float* y = allocate<float>(d, kThreads);
  for (size_t i = 0; i < kThreads; ++i) x[i] = static_cast<float>(i) / 64.0f;
  const Argument args[] = {Argument::buffer(x, kThreads * 4), Argument::buffer(y, kThreads * 4)};
  const Status s = d.dispatch(*p, args, {{2, 1, 1}, {64, 1, 1}, {}});
  const Status finished = d.finish();
  EXPECT_EQ(s.message(), finished.message());
  d.release(x);
  d.release(y);
  return s.message();
}

struct Broken {
  const char* name;
  int line;
  std::vector<const char*> says;
  bool without_checks = false;  // found by the fast form too
};

void PrintTo(const Broken& b, std::ostream* out) { *out << b.name; }

class BrokenKernel : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenKernel, IsCaughtWithFileLineAndThread) {
  const Broken& b = GetParam();
  const std::string path = std::string("metal/tests/broken/") + b.name + ".metal";
  for (const bool checks : {true, false}) {
    if (!checks && !b.without_checks) continue;
    const std::string message = run_broken(*open_device(checks), path);
    EXPECT_EQ(message.rfind(path + ":" + std::to_string(b.line) + ":", 0), 0u)
        << "wanted line " << b.line << ": " << message;
    for (const char* s : b.says)
      EXPECT_NE(message.find(s), std::string::npos) << "no '" << s << "' in: " << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BrokenKernel,
    ::testing::Values(
        Broken{"read_outside",
               7,
               {"read of 4 bytes outside any buffer", "'x' (buffer 0, 512 bytes)", "offset 512",
                "threadgroup (1,0,0), thread (63,0,0)"}},
        Broken{"write_outside",
               7,
               {"write of 4 bytes outside any buffer", "'y' (buffer 1", "offset -4",
                "threadgroup (0,0,0), thread (0,0,0)"}},
        Broken{"unwritten", 9, {"read before it was written", "variable of line 6", "thread (0,0,0)"}},
        Broken{"race_read",
               9,
               {"two threads on one threadgroup address", "writes", "which thread (", " read; kernel"}},
        Broken{"race_write", 7, {"two threads on one threadgroup address", "writes", "thread (1,0,0)"}},
        Broken{"race_next_round", 11, {"two threads on one threadgroup address", "reads", " wrote; kernel"}},
        Broken{"weak_barrier", 9, {"two threads on one threadgroup address"}},
        Broken{"simd_barrier_across", 9, {"two threads on one threadgroup address"}},
        Broken{"barrier_skipped",
               6,
               {"threadgroup_barrier is not reached by all threads", "has ended",
                "threadgroup (0,0,0), thread (0,0,0)"},
               true},
        Broken{"barrier_elsewhere",
               9,
               {"threadgroup_barrier is not reached by all threads", "barrier_elsewhere.metal:7"},
               true},
        Broken{"simd_skipped",
               7,
               {"simd_shuffle_xor is not reached by all threads of the simdgroup", "thread ("},
               true},
        Broken{"lane_missing", 6, {"simd_shuffle reads a lane that does not exist", "thread (31,0,0)"}, true},
        Broken{"misaligned", 7, {"misaligned access", "float4", "thread (1,0,0)"}},
        Broken{"wraps", 6, {"a multiplication wraps in 32 bits", "thread ("}},
        Broken{"wraps_below", 6, {"a subtraction wraps in 32 bits", "thread (0,0,0)"}},
        Broken{"array_index", 8, {"index outside the array", "thread (48,0,0)"}},
        Broken{"too_much_memory", 6, {"threadgroup memory of 32772 bytes; at most 32768"}, true},
        // The compilers' refusals.
        Broken{"float_sum", 6, {"simd_sum", "order of summation is not documented"}, true},
        Broken{
            "float_prefix", 6, {"simd_prefix_exclusive_sum", "order of summation is not documented"}, true},
        Broken{"not_compiling", 6, {"undeclared identifier 'undeclared'"}, true},
        Broken{"wrong_space", 6, {"__local", "__global"}, true},
        Broken{"no_space", 4, {"without an address space"}, true},
        Broken{"wrong_space_argument", 7, {"no matching function"}, true},
        Broken{"uses_double", 6, {"Metal has no double"}, true},
        Broken{"double_literal", 6, {"double precision constant"}, true},
        Broken{"recursion", 4, {"'depth' can call itself"}, true},
        Broken{"standard_header", 4, {"'cmath' file not found"}, true},
        Broken{"library_exp", 6, {"undeclared identifier 'exp'"}, true},
        Broken{"threadgroup_in_function", 5, {"must be declared in a kernel function"}, true},
        Broken{"vector_cast", 7, {"C cast to a vector type"}, true},
        Broken{"lambda", 6, {"no lambdas"}, true}, Broken{"if_constexpr", 6, {"C++17"}, true},
        Broken{"contracts", 1, {"no line '#pragma METAL fp contract(off)'"}, true},
        Broken{"no_attribute", 4, {"argument 'x' of kernel 'broken' needs an attribute"}, true}),
    [](const auto& i) { return std::string(i.param.name); });

class Features : public ::testing::TestWithParam<bool> {
 protected:
  Features() : device_(open_device(GetParam())) {
    x_ = allocate<float>(*device_, kThreads * 4);
    y_ = allocate<uint32_t>(*device_, kThreads * 8);
    for (size_t i = 0; i < kThreads * 4; ++i) x_[i] = static_cast<float>(i % 97) / 64.0f;
  }
  void run(const char* entry, uint32_t x_floats, uint32_t y_words) {
    const Constant constants[] = {Constant::of(0, true), Constant::of(1, 7u)};
    Result<Pipeline> p = device_->pipeline("metal/tests/features.metal", entry, constants);
    ASSERT_TRUE(p.ok()) << p.status().message();
    const Argument args[] = {Argument::buffer(x_, x_floats * 4), Argument::buffer(y_, y_words * 4)};
    const Status s = device_->dispatch(*p, args, {{2, 1, 1}, {64, 1, 1}, {}});
    ASSERT_TRUE(s.ok()) << s.message();
  }
  float f(size_t i) const {
    float v;
    std::memcpy(&v, y_ + i, 4);
    return v;
  }

  std::unique_ptr<Device> device_;
  float* x_;
  uint32_t* y_;
};

TEST_P(Features, Vectors) {
  run("vectors", kThreads * 4, kThreads * 8);
  for (size_t i = 0; i < kThreads; ++i) {
    const float* v = x_ + 4 * i;
    const float w[4] = {v[1], v[0], 3.0f, v[3]};
    EXPECT_EQ(f(8 * i), 2.0f + (v[1] + w[1]));
    EXPECT_EQ(f(8 * i + 1), 3.0f);
    EXPECT_EQ(f(8 * i + 2), std::trunc(v[3]));
    EXPECT_EQ(f(8 * i + 3), f16_to_f32(f32_to_f16(v[0])));
    EXPECT_EQ(f(8 * i + 4), 3.0f);
    EXPECT_EQ(f(8 * i + 5), std::fma(v[1], v[1], w[1]));
    EXPECT_EQ(f(8 * i + 6), static_cast<float>(1u << (i & 3)));
    EXPECT_EQ(f(8 * i + 7), std::min(std::max(v[0], 0.25f), 0.5f));
  }
}

TEST_P(Features, Lanes) {
  run("lanes", kThreads, kThreads * 8);
  for (size_t i = 0; i < kThreads; ++i) {
    const size_t first = i / 32 * 32, lane = i % 32;
    uint32_t before = 0, all = 0, most = 0;
    auto v = [&](size_t k) { return static_cast<uint32_t>(x_[first + k] * 64.0f); };
    for (size_t k = 0; k < 32; ++k) {
      before += k < lane ? v(k) : 0;
      all += v(k);
      most = std::max(most, v(k));
    }
    EXPECT_EQ(y_[8 * i], before);
    EXPECT_EQ(y_[8 * i + 1], before + v(lane));
    EXPECT_EQ(y_[8 * i + 2], all);
    EXPECT_EQ(y_[8 * i + 3], 0xaaaaaaaau);
    EXPECT_EQ(y_[8 * i + 4], most);
    EXPECT_EQ(y_[8 * i + 5], v(lane + 3 < 32 ? lane + 3 : lane));
    EXPECT_EQ(y_[8 * i + 6], v(lane >= 2 ? lane - 2 : lane) + v(5) + v(0));
    EXPECT_EQ(y_[8 * i + 7], 3u);
  }
}

TEST_P(Features, Atomics) {
  run("atomics", kThreads, 2);
  uint32_t sum = 0;
  for (size_t i = 0; i < kThreads; ++i) sum += static_cast<uint32_t>(x_[i] * 64.0f);
  EXPECT_EQ(y_[0], sum);
  EXPECT_EQ(y_[1], kThreads);
}

TEST_P(Features, SimdgroupBarrierOrdersOneSimdgroup) {
  run("simd_exchange", kThreads, kThreads);
  for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(f(i), x_[i ^ 1]);
}

TEST_P(Features, TemplatesConstantsAndThreadgroupArguments) {
  struct Sizes {
    uint32_t rows;
    float scale;
  };
  for (const bool flag : {true, false}) {
    const Constant constants[] = {Constant::of(0, flag), Constant::of(1, 7u)};
    Result<Pipeline> p = device_->pipeline("metal/tests/features.metal", "shared_sum_f", constants);
    ASSERT_TRUE(p.ok()) << p.status().message();
    const Argument args[] = {Argument::buffer(x_, kThreads * 4), Argument::buffer(y_, kThreads * 4),
                             Argument::value(Sizes{3, 2.0f})};
    ASSERT_TRUE(device_->dispatch(*p, args, {{2, 1, 1}, {64, 1, 1}, {64 * 4}}).ok());
    for (size_t i = 0; i < kThreads; ++i) {
      const size_t first = i / 64 * 64;
      float sum = 0.0f;
      for (size_t k = 0; k < 3; ++k) sum += 2.0f * x_[first + (i + k) % 64];
      EXPECT_EQ(f(i), flag ? sum : static_cast<float>(i / 64 + 3 + 7)) << i;
    }
    const Status small = device_->dispatch(*p, args, {{2, 1, 1}, {64, 1, 1}, {}});
    EXPECT_NE(small.message().find("[[threadgroup(0)]] has 0 bytes"), std::string::npos) << small.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Features, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "Checked" : "Fast"; });

// Bad input at the door: refused before anything runs, with the kernel's file and line.
TEST(Door, RefusesWrongArgumentsAndGrids) {
  const std::unique_ptr<Device> d = open_device(false);
  const std::string path = "metal/tests/features.metal";
  const std::vector<Constant> constants = {Constant::of(0, true), Constant::of(1, 7u)};
  const Pipeline p = *d->pipeline(path, "shared_sum_u", constants);
  uint32_t* x = allocate<uint32_t>(*d, 64);
  const Argument a = Argument::buffer(x, 256), sizes = Argument::value(uint64_t{0});
  const Grid grid{{1, 1, 1}, {64, 1, 1}, {256}};
  auto says = [&](const Status& s, const std::string& part) {
    EXPECT_EQ(s.code(), Code::kBadInput);
    EXPECT_EQ(s.message().rfind(path + ":", 0), 0u) << s.message();
    EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
  };
  auto dispatch = [&](std::vector<Argument> args, const Grid& g) { return d->dispatch(p, args, g); };
  EXPECT_TRUE(dispatch({a, a, sizes}, grid).ok());
  says(dispatch({a, a}, grid), "got 2 arguments, wanted 3 (x, y, s, scratch)");
  says(dispatch({a, a, sizes, sizes}, grid), "got 4 arguments, wanted 3");
  says(dispatch({a, Argument::none(), sizes}, grid), "'y' [[buffer(1)]] is missing");
  says(dispatch({a, a, Argument::value(uint32_t{0})}, grid),
       "'s' [[buffer(2)]] has 4 bytes, wanted at least 8");
  says(dispatch({a, sizes, sizes}, grid),
       "'y' [[buffer(1)]] is written by the kernel; a value cannot be bound");
  says(dispatch({a, Argument::buffer(x, 257), sizes}, grid), "ends 1 bytes behind its buffer of 256");
  says(dispatch({a, Argument::buffer(&grid, 4), sizes}, grid), "points into no buffer");
  says(dispatch({a, Argument::buffer(reinterpret_cast<char*>(x) + 2, 8), sizes}, grid),
       "not aligned to 4 bytes");
  says(dispatch({a, a, sizes}, {{1, 1, 1}, {1025, 1, 1}, {}}),
       "threadgroups of (1025,1,1) threads; wanted 1 to 1024");
  says(dispatch({a, a, sizes}, {{1, 1, 1}, {64, 32, 1}, {}}), "wanted 1 to 1024");
  says(dispatch({a, a, sizes}, {{1, 0, 1}, {64, 1, 1}, {256}}), "a grid of (1,0,1)");
  says(dispatch({a, a, sizes}, {{0x4000001, 1, 1}, {64, 1, 1}, {256}}), "2^32-1 threads");
  says(dispatch({a, a, sizes}, {{1, 1, 1}, {64, 1, 1}, {33000}}),
       "bytes of threadgroup memory; at most 32768");

  auto message = [&](const std::string& file, const std::string& entry, std::vector<Constant> c) {
    return d->pipeline(file, entry, c).status().message();
  };
  EXPECT_NE(message(path, "nothing", constants).find("no kernel 'nothing' in this file; it has: "),
            std::string::npos);
  EXPECT_NE(message(path, "nothing", constants).find("shared_sum_f"), std::string::npos);
  EXPECT_NE(message(path, "lanes", {}).find("function constant"), std::string::npos);
  EXPECT_NE(message(path, "lanes", {Constant::of(0, 3u), Constant::of(1, 7u)}).find("another type"),
            std::string::npos);
  EXPECT_NE(message(path, "lanes", {Constant::of(9, true)}).find("no function constant 9"),
            std::string::npos);
  EXPECT_NE(message("metal/kernels/absent.metal", "x", {}).find("absent.metal'"), std::string::npos);
}

TEST(Door, WrappedMemoryIsReadWithoutACopyAndNeverWritten) {
  const std::unique_ptr<Device> d = open_device(true);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* w = static_cast<float*>(page);
  for (int i = 0; i < 1024; ++i) w[i] = static_cast<float>(i);
  ASSERT_TRUE(d->wrap(page, 4096).ok());
  EXPECT_FALSE(d->wrap(w + 1, 64).ok());
  float* y = allocate<float>(*d, kThreads);
  const Constant constants[] = {Constant::of(0, true), Constant::of(1, 7u)};
  const Pipeline p = *d->pipeline("metal/tests/features.metal", "simd_exchange", constants);
  const Argument good[] = {Argument::buffer(w + 16, kThreads * 4), Argument::buffer(y, kThreads * 4)};
  ASSERT_TRUE(d->dispatch(p, good, {{2, 1, 1}, {64, 1, 1}, {}}).ok());
  for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(y[i], static_cast<float>(16 + (i ^ 1)));
  const Argument bad[] = {Argument::buffer(y, kThreads * 4), Argument::buffer(w, kThreads * 4)};
  EXPECT_NE(d->dispatch(p, bad, {{2, 1, 1}, {64, 1, 1}, {}}).message().find("read-only"), std::string::npos);
  d->release(page);
  munmap(page, 4096);
}

// A device goes on after a fault.
TEST(Door, WorksAfterAFault) {
  const std::unique_ptr<Device> d = open_device(true);
  EXPECT_NE(run_broken(*d, "metal/tests/broken/barrier_skipped.metal"), "");
  EXPECT_EQ(run_broken(*d, "metal/tests/broken/../sound.metal", "sound"), "");
  EXPECT_NE(run_broken(*d, "metal/tests/broken/read_outside.metal"), "");
  EXPECT_EQ(run_broken(*d, "metal/tests/broken/../sound.metal", "sound"), "");
}

TEST(Counters, CountWhatAKernelDoes) {
  const std::unique_ptr<Device> d = open_device(true);
  EXPECT_EQ(run_broken(*d, "metal/tests/sound.metal", "sound"), "");
  const Counters c = d->counters();
  EXPECT_EQ(c.device_loads, kThreads);
  EXPECT_EQ(c.device_stores, kThreads);
  EXPECT_EQ(c.device_load_bytes, kThreads * 4);
  EXPECT_EQ(c.threadgroup_stores, kThreads);
  EXPECT_EQ(c.threadgroup_loads, kThreads);
  EXPECT_EQ(c.barriers, 2u);
  EXPECT_EQ(c.threadgroups, 2u);
  d->reset_counters();
  EXPECT_EQ(d->counters().device_loads, 0u);
}

}  // namespace
}  // namespace argon::metal
