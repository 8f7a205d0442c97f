#include <gtest/gtest.h>

#include "metal/device.h"

namespace argon::metal {
namespace {

TEST(Executor, Smoke) {
  for (bool checks : {false, true}) {
    auto d = Device::open({.root = "", .checks = checks, .threads = 2});
    ASSERT_TRUE(d.ok());
    auto p = (*d)->pipeline("metal/kernels/gdn_prompt.metal", "t4", std::vector<Constant>{Constant::of(0, true)});
    ASSERT_TRUE(p.ok()) << p.status().message();
    auto x = (*d)->allocate(128), y = (*d)->allocate(128);
    for (int i = 0; i < 32; ++i) static_cast<float*>(*x)[i] = static_cast<float>(i) / 32.0f;
    Status s = (*d)->dispatch(*p, std::vector<Argument>{Argument::buffer(*x, 128), Argument::buffer(*y, 128), Argument::value(uint32_t{3})}, {{3, 1, 1}, {32, 1, 1}, {}});
    ASSERT_TRUE(s.ok()) << s.message();
    for (int i = 0; i < 32; ++i) printf("%g ", static_cast<float*>(*y)[i]);
    Counters c = (*d)->counters();
    printf("\nloads %lu tg %lu simd %lu bar %lu\n", c.device_loads, c.threadgroup_loads, c.simd_operations, c.barriers);
  }
}

}  // namespace
}  // namespace argon::metal
