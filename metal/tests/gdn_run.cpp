#include "metal/tests/gdn_run.h"

#include <algorithm>

#include "base/half.h"
#include "metal/kernels/gdn_args.h"
#include "metal/tests/ref_fma.h"

namespace argon::metal {
namespace {

constexpr float kEps = 1e-6f;
const char* const kKernels = "metal/kernels/gdn_prompt.metal";

template <class Args>
void run_units(ThreadPool& pool, const Args& args, void (*ref)(const Args&, int64_t, int64_t)) {
  pool.run(units(args), 1, [&](int64_t begin, int64_t end) { ref(args, begin, end); });
}

std::vector<float> tokens(const std::vector<float>& v, size_t width, size_t first, size_t n) {
  return {v.begin() + static_cast<std::ptrdiff_t>(first * width),
          v.begin() + static_cast<std::ptrdiff_t>((first + n) * width)};
}

}  // namespace

GdnInputs gdn_inputs(const GdnSize& s, uint64_t seed) {
  GdnInputs in;
  const size_t ch = s.channels(), heads = size_t{s.T} * s.hv;
  in.qkv = random_floats(seed, s.T * ch, -2.0f, 2.0f);
  in.alpha = random_floats(seed + 1, heads, -4.0f, 4.0f);
  in.beta = random_floats(seed + 2, heads, -3.0f, 3.0f);
  in.conv_w = random_floats(seed + 3, ch * 4, -0.6f, 0.6f);
  in.a = random_floats(seed + 4, s.hv, -1.5f, -0.001f);
  in.dt = random_floats(seed + 5, s.hv, -3.0f, 1.0f);
  in.history = random_floats(seed + 6, 3 * ch, -2.0f, 2.0f);
  in.state = random_floats(seed + 7, size_t{s.hv} * s.D * s.D, -0.5f, 0.5f);
  in.z = random_floats(seed + 8, heads * s.D, -4.0f, 4.0f);
  in.norm_w = random_floats(seed + 9, s.D, 0.5f, 1.5f);
  return in;
}

GdnOutputs gdn_reference(const GdnSize& s, const GdnInputs& in, ThreadPool& pool) {
  const ops::GdnShape shape{s.T, s.hk, s.hv, s.D};
  const size_t keys = size_t{s.T} * s.hk, values = size_t{s.T} * s.hv;
  GdnOutputs out;
  out.qn.resize(keys * s.D), out.kn.resize(keys * s.D), out.kq.resize(keys);
  out.vc.resize(values * s.D), out.gb.resize(values * 2), out.o.resize(values * s.D),
      out.y.resize(values * s.D);
  out.history = in.history;
  out.state = in.state;
  const ops::GdnPreArgs pre{shape,
                            in.qkv.data(),
                            in.alpha.data(),
                            in.beta.data(),
                            in.conv_w.data(),
                            in.a.data(),
                            in.dt.data(),
                            out.history.data(),
                            out.qn.data(),
                            out.kn.data(),
                            out.vc.data(),
                            out.gb.data(),
                            out.kq.data(),
                            kEps};
  run_units(pool, pre, ops::gdn_pre_ref_fma);
  const ops::GdnScanArgs scan{shape,         out.qn.data(), out.kn.data(),    out.vc.data(),
                              out.gb.data(), out.kq.data(), out.state.data(), out.o.data()};
  run_units(pool, scan, ops::gdn_scan_ref_fma);
  const ops::GdnPostArgs post{shape, out.o.data(), in.z.data(), in.norm_w.data(), out.y.data(), kEps};
  run_units(pool, post, ops::gdn_post_ref_fma);
  for (float v : out.y) out.yh.push_back(f32_to_f16(v));
  return out;
}

Result<GdnPipelines> GdnPipelines::create(Device& device) {
  GdnPipelines p;
  auto constants = [](bool grouped, bool half) {
    return std::vector<Constant>{Constant::of(0, grouped), Constant::of(1, half), Constant::of(2, !half)};
  };
  ARGON_ASSIGN_OR_RETURN(p.pre, device.pipeline(kKernels, "gdn_pre", constants(false, false)));
  for (int grouped = 0; grouped < 2; ++grouped) {
    ARGON_ASSIGN_OR_RETURN(p.scan[grouped],
                           device.pipeline(kKernels, "gdn_scanr_4", constants(grouped != 0, false)));
    ARGON_ASSIGN_OR_RETURN(p.scan_sg0[grouped],
                           device.pipeline("metal/lab/gdn_scan_sg0.metal", "gdn_scanr_4_sg0",
                                           std::vector<Constant>{Constant::of(0, grouped != 0)}));
  }
  ARGON_ASSIGN_OR_RETURN(p.post_half, device.pipeline(kKernels, "gdn_post", constants(false, true)));
  ARGON_ASSIGN_OR_RETURN(p.post_float, device.pipeline(kKernels, "gdn_post", constants(false, false)));
  return p;
}

GdnLayer::GdnLayer(Device& d, const GdnPipelines& p, const GdnSize& s, const GdnInputs& in)
    : qkv(d, s.T * s.channels()),
      alpha(d, size_t{s.T} * s.hv),
      beta(d, size_t{s.T} * s.hv),
      conv_w(d, s.channels() * 4),
      a(d, s.hv),
      dt(d, s.hv),
      history(d, 3 * s.channels()),
      qn(d, size_t{s.T} * s.hk * s.D),
      kn(d, size_t{s.T} * s.hk * s.D),
      vc(d, size_t{s.T} * s.hv * s.D),
      gb(d, size_t{s.T} * s.hv * 2),
      kq(d, size_t{s.T} * s.hk),
      history_out(d, 3 * s.channels()),
      state(d, size_t{s.hv} * s.D * s.D),
      o(d, size_t{s.T} * s.hv * s.D),
      z(d, size_t{s.T} * s.hv * s.D),
      norm_w(d, s.D),
      y(d, size_t{s.T} * s.hv * s.D),
      yh(d, size_t{s.T} * s.hv * s.D),
      device_(d),
      p_(p),
      s_(s),
      state_before_(in.state) {
  conv_w.fill(in.conv_w), a.fill(in.a), dt.fill(in.dt), history.fill(in.history), norm_w.fill(in.norm_w);
  load_tokens(in, 0);
  restore_state();
}

void GdnLayer::load_tokens(const GdnInputs& all, size_t first) {
  qkv.fill(tokens(all.qkv, s_.channels(), first, s_.T));
  alpha.fill(tokens(all.alpha, s_.hv, first, s_.T));
  beta.fill(tokens(all.beta, s_.hv, first, s_.T));
  z.fill(tokens(all.z, size_t{s_.hv} * s_.D, first, s_.T));
}

void GdnLayer::restore_state() { state.fill(state_before_); }

Status GdnLayer::pre() {
  const Argument args[] = {qkv.argument(),         alpha.argument(),
                           beta.argument(),        conv_w.argument(),
                           a.argument(),           dt.argument(),
                           history.argument(),     qn.argument(),
                           kn.argument(),          vc.argument(),
                           gb.argument(),          kq.argument(),
                           history_out.argument(), Argument::value(GdnMetalArgs{s_.T, s_.hk, s_.hv, kEps})};
  return device_.dispatch(p_.pre, args, {{s_.T, 1, 1}, {256, 1, 1}, {}});
}

Status GdnLayer::scan(const Pipeline& pipeline) {
  const Argument args[] = {qn.argument(), kn.argument(),
                           vc.argument(), gb.argument(),
                           kq.argument(), state.argument(),
                           o.argument(),  Argument::value(GdnMetalArgs{s_.T, s_.hk, s_.hv, kEps})};
  return device_.dispatch(pipeline, args, {{s_.hv * 4, 1, 1}, {128, 1, 1}, {}});
}

Status GdnLayer::post(bool half) {
  const Argument args[] = {o.argument(),
                           z.argument(),
                           norm_w.argument(),
                           half ? yh.argument() : Argument::none(),
                           half ? Argument::none() : y.argument(),
                           Argument::value(GdnMetalArgs{s_.T, s_.hk, s_.hv, kEps})};
  return device_.dispatch(half ? p_.post_half : p_.post_float, args, {{s_.T, 1, 1}, {256, 1, 1}, {}});
}

}  // namespace argon::metal
