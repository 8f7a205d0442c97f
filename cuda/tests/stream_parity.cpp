// Parity at the sizes of a prompt pass: the kernels that take several tokens a block or a warp.
#include "cuda/tests/parity.h"
#include "ops/gated_residual/gated_residual_cases.h"
#include "ops/gdn/gdn_cases.h"
#include "ops/moe_combine/moe_combine_cases.h"

namespace argon::testing {
namespace {

// The operations' own cases, at other sizes.
template <class Args, class Make>
void check_sizes(std::initializer_list<int64_t> tokens, Make make) {
  ParityCases<Args> cases;
  for (int64_t T : tokens)
    cases.push_back({"T " + std::to_string(T), T, [=](TestArena& a) { return make(a, T); }});
  check_cuda_parity(cases);
}

size_t n(int64_t v) { return static_cast<size_t>(v); }
constexpr int64_t kH = 2560, kC = 4;

TEST(CudaStreamParity, GrNorm) {
  for (const bool apply : {false, true}) {
    check_sizes<ops::GrNormArgs>({198, 331}, [=](TestArena& a, int64_t T) {
      float* x = a.floats(n(T * kC * kH));
      const float* w = a.floats(n(kC * kH));
      const float* b = apply ? a.floats(n(T * kH)) : nullptr;
      const float* inj = apply ? a.floats(n(T * kC), 3.0f) : nullptr;
      ops::GrNormArgs g{x, w, b, inj, a.output<float>(n(T * kC * kH)), T, kC, kH, 1e-6f};
      g.out_q = ops::quantized_output(a, T * kC * kH);
      return g;
    });
  }
}

TEST(CudaStreamParity, GdnPre) {
  for (const int64_t hk : {1, 3}) {
    check_sizes<ops::GdnPreArgs>({4, 7, 8, 9, 11, 64, 67}, [=](TestArena& a, int64_t T) {
      ops::GdnPreArgs g{};
      g.s = {T, hk, 3 * hk, 128};
      const int64_t ch = channels(g.s);
      g.qkv = a.floats(n(T * ch));
      g.alpha = a.floats(n(T * g.s.hv), 3.0f);
      g.beta = a.floats(n(T * g.s.hv), 3.0f);
      g.conv_w = a.floats(n(ch * ops::kGdnConvTaps), 0.5f);
      g.a = a.uniform(n(g.s.hv), -4.0f, 0.0f);
      g.dt = a.floats(n(g.s.hv));
      g.history = a.floats(n(3 * ch));
      g.qn = a.output<float>(n(T * hk * 128));
      g.kn = a.output<float>(n(T * hk * 128));
      g.vc = a.output<float>(n(T * g.s.hv * 128));
      g.gb = a.output<float>(n(T * g.s.hv * 2));
      g.kq = a.output<float>(n(T * hk));
      g.eps = 1e-6f;
      return g;
    });
  }
}

// Tiles of 16 tokens: ends at every place of a tile, one to five tiles.
TEST(CudaStreamParity, GdnScan) {
  for (const int64_t ratio : {1, 2, 3, 4}) {
    check_sizes<ops::GdnScanArgs>({15, 16, 18, 31, 32, 33, 47, 48, 49, 80}, [=](TestArena& a, int64_t T) {
      ops::GdnScanArgs g{};
      g.s = {T, 2, 2 * ratio, 128};
      g.qn = a.floats(n(T * 2 * 128), 0.01f);
      g.kn = a.floats(n(T * 2 * 128), 0.09f);
      g.vc = a.floats(n(T * g.s.hv * 128));
      g.gb = a.uniform(n(T * g.s.hv * 2), 0.0f, 1.0f);
      g.kq = a.floats(n(T * 2), 0.1f);
      g.state = a.floats(n(g.s.hv * 128 * 128));
      g.o = a.output<float>(n(T * g.s.hv * 128));
      return g;
    });
  }
}

}  // namespace
}  // namespace argon::testing
