#include "cuda/kernels.h"
#include "cuda/tests/prompt_route.h"
#include "cuda/tests/route_device.h"

namespace argon::testing {
namespace {

using metal::GdnInputs;
using metal::GdnOutputs;
using metal::GdnSize;
using metal::Report;
using metal::Verdict;

constexpr float kEps = 1e-6f;

std::vector<float> cut(const std::vector<float>& v, size_t width, size_t first, size_t n) {
  return {v.begin() + static_cast<std::ptrdiff_t>(first * width),
          v.begin() + static_cast<std::ptrdiff_t>((first + n) * width)};
}

// One layer's pass on the device.
class Layer {
 public:
  Layer(CudaBackend& b, const GdnSize& s, const GdnInputs& in, size_t first = 0)
      : qkv(b, s.T * s.channels()),
        alpha(b, size_t{s.T} * s.hv),
        beta(b, size_t{s.T} * s.hv),
        conv_w(b, s.channels() * 4),
        a(b, s.hv),
        dt(b, s.hv),
        history(b, 3 * s.channels()),
        qn(b, size_t{s.T} * s.hk * s.D),
        kn(b, size_t{s.T} * s.hk * s.D),
        vc(b, size_t{s.T} * s.hv * s.D),
        gb(b, size_t{s.T} * s.hv * 2),
        kq(b, size_t{s.T} * s.hk),
        state(b, size_t{s.hv} * s.D * s.D),
        o(b, size_t{s.T} * s.hv * s.D),
        z(b, size_t{s.T} * s.hv * s.D),
        norm_w(b, s.D),
        y(b, size_t{s.T} * s.hv * s.D),
        yq(b, size_t{s.T} * s.hv * s.D),
        state_before_(in.state),
        history_before_(in.history),
        shape_{s.T, s.hk, s.hv, s.D} {
    qkv.fill(cut(in.qkv, s.channels(), first, s.T));
    alpha.fill(cut(in.alpha, s.hv, first, s.T));
    beta.fill(cut(in.beta, s.hv, first, s.T));
    z.fill(cut(in.z, size_t{s.hv} * s.D, first, s.T));
    conv_w.fill(in.conv_w), a.fill(in.a), dt.fill(in.dt), norm_w.fill(in.norm_w);
    restore();
  }
  // State and history as they were before the pass.
  void restore() { state.fill(state_before_), history.fill(history_before_); }

  ops::GdnPreArgs pre() const {
    return {shape_,         qkv.data(), alpha.data(), beta.data(), conv_w.data(), a.data(),  dt.data(),
            history.data(), qn.data(),  kn.data(),    vc.data(),   gb.data(),     kq.data(), kEps};
  }
  ops::GdnScanArgs scan() const {
    return {shape_, qn.data(), kn.data(), vc.data(), gb.data(), kq.data(), state.data(), o.data()};
  }
  ops::GdnPostArgs post(bool quantise) const {
    return {shape_,
            o.data(),
            z.data(),
            norm_w.data(),
            y.data(),
            kEps,
            quantise ? yq.rows() : ops::QuantizedRows{}};
  }

  DeviceArray<float> qkv, alpha, beta, conv_w, a, dt, history, qn, kn, vc, gb, kq, state, o, z, norm_w, y;
  DeviceQuantized yq;

 private:
  std::vector<float> state_before_, history_before_;
  ops::GdnShape shape_;
};

class Program {
 public:
  Program(CudaBackend& b, Report& report)
      : b_(b), report_(report), pool_(ThreadPool::available_processors()) {}
  void check(const GdnSize& s);
  void check_cut(const GdnSize& s, uint32_t at);
  void time(const GdnRoute& route);

 private:
  static std::string label(const GdnSize& s, const std::string& what) {
    return "(" + std::to_string(s.hk) + "," + std::to_string(s.hv) + ") T=" + std::to_string(s.T) + " " +
           what;
  }
  CudaBackend& b_;
  Report& report_;
  ThreadPool pool_;
};

void Program::check(const GdnSize& s) {
  const GdnInputs in = metal::gdn_inputs(s, 1000 * s.T + s.hv);
  const GdnOutputs want = metal::gdn_reference(s, in, pool_);
  Layer l(b_, s, in);
  const auto pre = [&](const char* name, const std::function<void()>& run) {
    Verdict v;
    l.restore();
    for (auto* a : {&l.qn, &l.kn, &l.vc, &l.gb, &l.kq}) a->poison();
    run();
    v.equal("qn", l.qn.read("qn", v), want.qn);
    v.equal("kn", l.kn.read("kn", v), want.kn);
    v.equal("vc", l.vc.read("vc", v), want.vc);
    v.equal("gb", l.gb.read("gb", v), want.gb);
    v.equal("kq", l.kq.read("kq", v), want.kq);
    v.equal("history", l.history.read("history", v), want.history);
    report_.line(label(s, name), v);
  };
  pre("gdn_pre, a token a warp", [&] { cuda::run_general(b_.queue(), l.pre()); });
  pre("gdn_pre", [&] { b_.run(l.pre()); });
  const auto scan = [&](const char* name, const std::function<void()>& run) {
    Verdict v;
    l.restore();
    l.o.poison();
    run();
    v.equal("o", l.o.read("o", v), want.o);
    v.equal("state", l.state.read("state", v), want.state);
    report_.line(label(s, name), v);
  };
  if (s.T <= 512) scan("gdn_scan, state in memory", [&] { cuda::scan_by(b_.queue(), l.scan(), 0); });
  scan("gdn_scan plain", [&] { cuda::scan_by(b_.queue(), l.scan(), 1); });
  scan("gdn_scan grouped", [&] { cuda::run(b_.queue(), l.scan()); });
  scan("gdn_scan of the backend", [&] { b_.run(l.scan()); });
  for (const bool quantise : {false, true}) {
    Verdict v;
    l.y.poison(), l.yq.poison();
    b_.run(l.post(quantise));
    v.equal("y", l.y.read("y", v), want.y);
    if (quantise) l.yq.compare("quantised y", want.y, v);
    report_.line(label(s, quantise ? "gdn_post, quantising" : "gdn_post"), v);
  }
  Verdict v;
  l.y.poison();
  cuda::run_general(b_.queue(), l.post(false));
  v.equal("y", l.y.read("y", v), want.y);
  report_.line(label(s, "gdn_post, general"), v);
}

// A pass in two pieces, history and state carried over, gives the words of the whole pass.
void Program::check_cut(const GdnSize& s, uint32_t at) {
  const GdnInputs in = metal::gdn_inputs(s, 77 * s.T + at);
  const GdnOutputs want = metal::gdn_reference(s, in, pool_);
  Verdict v;
  Layer first(b_, {at, s.hk, s.hv}, in);
  b_.run(first.pre());
  b_.run(first.scan());
  GdnInputs then = in;
  then.history = first.history.read("history of pass 1", v);
  then.state = first.state.read("state of pass 1", v);
  Layer second(b_, {s.T - at, s.hk, s.hv}, [&] {
    GdnInputs rest = then;
    const size_t ch = s.channels(), width = size_t{s.hv} * s.D;
    rest.qkv = cut(in.qkv, ch, at, s.T - at), rest.alpha = cut(in.alpha, s.hv, at, s.T - at);
    rest.beta = cut(in.beta, s.hv, at, s.T - at), rest.z = cut(in.z, width, at, s.T - at);
    return rest;
  }());
  b_.run(second.pre());
  b_.run(second.scan());
  const size_t width = size_t{s.hv} * s.D;
  v.equal("history", second.history.read("history", v), want.history);
  v.equal("state", second.state.read("state", v), want.state);
  v.equal("o of pass 1", first.o.read("o of pass 1", v), cut(want.o, width, 0, at));
  v.equal("o of pass 2", second.o.read("o of pass 2", v), cut(want.o, width, at, s.T - at));
  report_.line(label(s, "cut at " + std::to_string(at)), v);
}

void Program::time(const GdnRoute& route) {
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t T : route.ab) {
    const GdnSize s{T, 16, 48};
    Layer l(b_, s, metal::gdn_inputs(s, 5));
    b_.run(l.pre());
    cuda::Queue& q = b_.queue();
    std::vector<Contest> contests = {
        {"head schedule",
         "gdn_scan grouped",
         "gdn_scan plain",
         {[&] { cuda::run(q, l.scan()); }, [&] { cuda::scan_by(q, l.scan(), 1); }}},
        {"gdn_pre",
         "8 tokens a warp",
         "1 token a warp",
         {[&] { cuda::run(q, l.pre()); }, [&] { cuda::run_general(q, l.pre()); }}},
        {"gdn_post, quantising",
         "one kernel",
         "two kernels",
         {[&] { b_.run(l.post(true)); },
          [&] {
            cuda::run_general(q, l.post(false));
            cuda::run(q, ops::quantized(l.post(true)));
          }}}};
    if (T <= 512) {
      contests.push_back({"where the state is",
                          "gdn_scan, registers",
                          "gdn_scan, memory",
                          {[&] { cuda::run(q, l.scan()); }, [&] { cuda::scan_by(q, l.scan(), 0); }}});
    }
    for (const Contest& c : contests)
      rows.push_back(compete(b_, T, c, route.layers, 3, [&] { l.restore(); }));
  }
  report_.table("Time of " + std::to_string(route.layers) +
                    " layers at (16,48) in ms, median of 3 (min to max), pairs alternating.",
                contest_head(), rows);
}

}  // namespace

int gdn_prompt_on_cuda(const GdnRoute& route) {
  int code = 0;
  const std::unique_ptr<CudaBackend> b = open_cuda(code);
  if (b == nullptr) return code;
  std::printf("%s\n", b->name().c_str());
  Report report("gdn_prompt_parity --backend cuda");
  check_harness(*b, report);
  Program p(*b, report);
  for (const GdnSize& s : route.sizes) {
    p.check(s);
    if (s.T > 1 && s.T <= 37) p.check_cut(s, 1);
    if (s.T > 3 && s.T <= 37) p.check_cut(s, s.T / 2);
  }
  if (report.all_passed() && !route.ab.empty()) p.time(route);
  return report.finish(route.report, b->name());
}

}  // namespace argon::testing
