// Parity cases of the gated delta rule: head groupings, short and long passes, state carried in, head sizes.
#pragma once

#include "ops/gdn/gdn.h"
#include "ops/matmul/matmul_cases.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline std::vector<GdnShape> gdn_case_shapes() {
  return {{1, 1, 3, 128},  {2, 2, 6, 128}, {3, 2, 4, 128}, {17, 2, 2, 128},
          {37, 1, 3, 128}, {5, 2, 6, 64},  {4, 3, 3, 8},   {2, 16, 48, 128}};
}

inline std::string gdn_case_name(const GdnShape& s) {
  return "T " + std::to_string(s.T) + ", hk " + std::to_string(s.hk) + ", hv " + std::to_string(s.hv) +
         ", D " + std::to_string(s.D);
}

inline testing::ParityCases<GdnPreArgs> gdn_pre_cases() {
  testing::ParityCases<GdnPreArgs> cases;
  for (const GdnShape& s : gdn_case_shapes()) {
    cases.push_back({gdn_case_name(s), s.T, [=](testing::TestArena& a) {
                       const auto n = [](int64_t v) { return static_cast<size_t>(v); };
                       const int64_t ch = channels(s);
                       GdnPreArgs g{};
                       g.s = s;
                       g.qkv = a.floats(n(s.T * ch));
                       g.alpha = a.floats(n(s.T * s.hv), 3.0f);
                       g.beta = a.floats(n(s.T * s.hv), 3.0f);
                       g.conv_w = a.floats(n(ch * kGdnConvTaps), 0.5f);
                       g.a = a.uniform(n(s.hv), -4.0f, 0.0f);
                       g.dt = a.floats(n(s.hv));
                       g.history = a.floats(n((kGdnConvTaps - 1) * ch));
                       g.qn = a.output<float>(n(s.T * s.hk * s.D));
                       g.kn = a.output<float>(n(s.T * s.hk * s.D));
                       g.vc = a.output<float>(n(s.T * s.hv * s.D));
                       g.gb = a.output<float>(n(s.T * s.hv * 2));
                       g.kq = a.output<float>(n(s.T * s.hk));
                       g.eps = 1e-6f;
                       return g;
                     }});
  }
  return cases;
}

inline testing::ParityCases<GdnScanArgs> gdn_scan_cases() {
  testing::ParityCases<GdnScanArgs> cases;
  for (const GdnShape& s : gdn_case_shapes()) {
    cases.push_back({gdn_case_name(s), s.T, [=](testing::TestArena& a) {
                       const auto n = [](int64_t v) { return static_cast<size_t>(v); };
                       GdnScanArgs g{};
                       g.s = s;
                       g.qn = a.floats(n(s.T * s.hk * s.D), 0.01f);
                       g.kn = a.floats(n(s.T * s.hk * s.D), 0.09f);
                       g.vc = a.floats(n(s.T * s.hv * s.D));
                       g.gb = a.uniform(n(s.T * s.hv * 2), 0.0f, 1.0f);
                       g.kq = a.floats(n(s.T * s.hk), 0.1f);
                       g.state = a.floats(n(s.hv * s.D * s.D));
                       g.o = a.output<float>(n(s.T * s.hv * s.D));
                       return g;
                     }});
  }
  return cases;
}

inline testing::ParityCases<GdnPostArgs> gdn_post_cases() {
  testing::ParityCases<GdnPostArgs> cases;
  for (const GdnShape& s : gdn_case_shapes()) {
    cases.push_back({gdn_case_name(s), s.T, [=](testing::TestArena& a) {
                       const size_t n = static_cast<size_t>(s.T * s.hv * s.D);
                       const float* o = a.floats(n);
                       const float* z = a.floats(n, 4.0f);
                       const float* w = a.floats(static_cast<size_t>(s.D));
                       GdnPostArgs g{s, o, z, w, a.output<float>(n), 1e-6f};
                       if (s.hv * s.D % 32 == 0) g.out_q = quantized_output(a, s.T * s.hv * s.D);
                       return g;
                     }});
  }
  return cases;
}

}  // namespace argon::ops
