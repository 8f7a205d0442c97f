// The references that gdn_prompt_parity runs (hardware fma) give the bits of ops/gdn's own.
#include <gtest/gtest.h>

#include <cstring>

#include "metal/tests/gdn_run.h"
#include "metal/tests/ref_fma.h"

namespace argon::metal {
namespace {

TEST(GdnReference, HardwareFmaGivesTheSameBits) {
  const GdnSize s{9, 2, 6};
  const GdnInputs in = gdn_inputs(s, 3);
  ThreadPool pool(1);
  const GdnOutputs fast = gdn_reference(s, in, pool);
  const ops::GdnShape shape{s.T, s.hk, s.hv, s.D};
  GdnOutputs own = fast;
  own.history = in.history;
  own.state = in.state;
  const ops::GdnPreArgs pre{
      shape,         in.qkv.data(), in.alpha.data(),    in.beta.data(), in.conv_w.data(),
      in.a.data(),   in.dt.data(),  own.history.data(), own.qn.data(),  own.kn.data(),
      own.vc.data(), own.gb.data(), own.kq.data(),      1e-6f};
  ops::gdn_pre_ref(pre, 0, units(pre));
  const ops::GdnScanArgs scan{shape,         own.qn.data(), own.kn.data(),    own.vc.data(),
                              own.gb.data(), own.kq.data(), own.state.data(), own.o.data()};
  ops::gdn_scan_ref(scan, 0, units(scan));
  const ops::GdnPostArgs post{shape, own.o.data(), in.z.data(), in.norm_w.data(), own.y.data(), 1e-6f};
  ops::gdn_post_ref(post, 0, units(post));
  auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(own.kn, fast.kn));
  EXPECT_TRUE(same(own.qn, fast.qn));
  EXPECT_TRUE(same(own.gb, fast.gb));
  EXPECT_TRUE(same(own.kq, fast.kq));
  EXPECT_TRUE(same(own.history, fast.history));
  EXPECT_TRUE(same(own.state, fast.state));
  EXPECT_TRUE(same(own.o, fast.o));
  EXPECT_TRUE(same(own.y, fast.y));
}

}  // namespace
}  // namespace argon::metal
