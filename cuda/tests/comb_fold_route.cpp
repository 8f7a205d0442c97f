#include "cuda/kernels.h"
#include "cuda/tests/prompt_route.h"
#include "cuda/tests/route_device.h"

namespace argon::testing {
namespace {

using metal::CombInputs;
using metal::CombOutputs;
using metal::CombSize;
using metal::Report;
using metal::Verdict;

constexpr float kEps = 1e-6f;

class Pass {
 public:
  Pass(CudaBackend& b, const CombSize& s, const CombInputs& in)
      : x(b, in.x.size()),
        w_norm(b, in.w_norm.size()),
        b_in(b, in.b.size()),
        inj(b, in.inj.size()),
        ye(b, in.ye.size()),
        w(b, in.w.size()),
        shared(b, in.shared.size()),
        sg(b, in.sg.size()),
        n(b, in.x.size()),
        combined(b, in.b.size()),
        slot(b, in.slot.size()),
        nq(b, s.n % 32 == 0 ? in.x.size() : 32),
        s_(s),
        x_before_(in.x) {
    w_norm.fill(in.w_norm), b_in.fill(in.b), inj.fill(in.inj), ye.fill(in.ye), w.fill(in.w);
    shared.fill(in.shared), sg.fill(in.sg), slot.fill(in.slot);
    reset();
  }
  void reset() { x.fill(x_before_), n.poison(), combined.poison(), nq.poison(); }
  void restore_x() { x.fill(x_before_); }

  ops::MoeCombineArgs combine() const {
    return {ye.data(), slot.data(), w.data(), shared.data(), sg.data(), combined.data(), s_.T, s_.topk, s_.n};
  }
  // Norm alone, after adding b, or after adding the combined rows.
  enum class Add { kNone, kBlock, kExperts };
  ops::GrNormArgs norm(Add add, bool quantise) const {
    const float* from = add == Add::kNone ? nullptr : add == Add::kBlock ? b_in.data() : combined.data();
    return {x.data(), w_norm.data(),
            from,     from == nullptr ? nullptr : inj.data(),
            n.data(), s_.T,
            s_.C,     s_.n,
            kEps,     quantise && s_.n % 32 == 0 ? nq.rows() : ops::QuantizedRows{}};
  }
  ops::GrApplyArgs apply(Add add) const {
    return {x.data(), add == Add::kBlock ? b_in.data() : combined.data(), inj.data(), s_.T, s_.C, s_.n};
  }

  DeviceArray<float> x, w_norm, b_in, inj, ye, w, shared, sg, n, combined;
  DeviceArray<int32_t> slot;
  DeviceQuantized nq;

 private:
  const CombSize s_;
  std::vector<float> x_before_;
};

void check(CudaBackend& b, Report& report, ThreadPool& pool, const CombCase& c) {
  const CombSize& s = c.size;
  const CombInputs in = metal::comb_inputs(s, c.absent, 7919 * s.T + 131 * s.n + 17 * s.topk + s.C);
  const CombOutputs want = metal::comb_reference(s, in, pool);
  Pass p(b, s, in);
  cuda::Queue& q = b.queue();
  Verdict v;
  const auto step = [&](const char* name, const std::function<void()>& run, const std::vector<float>* x,
                        const std::vector<float>* n, bool quantised) {
    p.reset();
    run();
    const std::string of = name;
    if (x != nullptr) v.equal((of + ": x").c_str(), p.x.read(name, v), *x);
    if (n != nullptr) v.equal((of + ": n").c_str(), p.n.read(name, v), *n);
    if (quantised && s.n % 32 == 0) p.nq.compare((of + ": quantised n").c_str(), *n, v);
  };
  const auto combine = [&](const char* name, const std::function<void()>& run) {
    p.reset();
    run();
    v.equal(name, p.combined.read(name, v), want.combined);
  };
  using Add = Pass::Add;
  combine("moe_combine", [&] { b.run(p.combine()); });
  combine("moe_combine, general", [&] { cuda::run_general(q, p.combine()); });
  step(
      "gr_norm", [&] { b.run(p.norm(Add::kNone, true)); }, &in.x, &want.n_only, true);
  step(
      "gr_norm, general", [&] { cuda::run_general(q, p.norm(Add::kNone, true)); }, &in.x, &want.n_only, true);
  step(
      "gr_norm, adding", [&] { b.run(p.norm(Add::kBlock, true)); }, &want.x_b, &want.n_b, true);
  step(
      "gr_norm, adding, not quantising", [&] { b.run(p.norm(Add::kBlock, false)); }, &want.x_b, &want.n_b,
      false);
  step(
      "gr_norm, adding, general", [&] { cuda::run_general(q, p.norm(Add::kBlock, true)); }, &want.x_b,
      &want.n_b, true);
  step(
      "gr_apply", [&] { b.run(p.apply(Add::kBlock)); }, &want.x_b, nullptr, false);
  step(
      "gr_apply, general", [&] { cuda::run_general(q, p.apply(Add::kBlock)); }, &want.x_b, nullptr, false);
  step(
      "combine folded into norm", [&] { b.run_combined_norm(p.combine(), p.norm(Add::kExperts, true)); },
      &want.x_moe, &want.n_moe, true);
  step(
      "combine, then apply",
      [&] {
        b.run(p.combine());
        b.run(p.apply(Add::kExperts));
      },
      &want.x_moe, nullptr, false);
  report.line("n=" + std::to_string(s.n) + " C=" + std::to_string(s.C) + " T=" + std::to_string(s.T) +
                  " topk=" + std::to_string(s.topk) + ", " + metal::name_of(c.absent),
              v);
}

void time(CudaBackend& b, Report& report, const std::vector<uint32_t>& T) {
  std::vector<std::vector<std::string>> rows;
  constexpr int kCalls = 4, kSamples = 5;
  for (const uint32_t tokens : T) {
    const CombSize s{tokens, 4, 2560, 10};
    Pass p(b, s, metal::comb_inputs(s, metal::Absent::kRandom, tokens));
    cuda::Queue& q = b.queue();
    using Add = Pass::Add;
    const auto apart = [&] {
      cuda::run(q, p.combine());
      cuda::run(q, p.norm(Add::kExperts, true));
    };
    const std::vector<Contest> contests = {
        {"moe_combine",
         "16-byte loads, 10 rows ahead",
         "a value a thread",
         {[&] { cuda::run(q, p.combine()); }, [&] { cuda::run_general(q, p.combine()); }}},
        {"gr_norm, adding, quantising",
         "weights kept",
         "a row a block",
         {[&] { cuda::run(q, p.norm(Add::kBlock, true)); },
          [&] { cuda::run_general(q, p.norm(Add::kBlock, true)); }}},
        {"gr_norm, quantising",
         "weights kept",
         "a row a block",
         {[&] { cuda::run(q, p.norm(Add::kNone, true)); },
          [&] { cuda::run_general(q, p.norm(Add::kNone, true)); }}},
        {"gr_norm and quantisation",
         "one kernel",
         "two kernels",
         {[&] { cuda::run(q, p.norm(Add::kBlock, true)); },
          [&] {
            cuda::run(q, p.norm(Add::kBlock, false));
            cuda::run(q, ops::quantized(p.norm(Add::kBlock, true)));
          }}},
        {"gr_apply",
         "16 bytes a thread",
         "a value a thread",
         {[&] { cuda::run(q, p.apply(Add::kBlock)); }, [&] { cuda::run_general(q, p.apply(Add::kBlock)); }}},
        {"moe_combine and gr_norm",
         "the backend's choice",
         "two kernels",
         {[&] { b.run_combined_norm(p.combine(), p.norm(Add::kExperts, true)); }, apart}}};
    for (const Contest& c : contests) {
      rows.push_back(compete(b, tokens, c, kCalls, kSamples, [&] { p.restore_x(); }));
    }
  }
  report.table("Time of " + std::to_string(kCalls) +
                   " calls in ms at n = 2560, C = 4, 10 slots: median of 5 (min to max), pairs alternating.",
               contest_head(), rows);
}

}  // namespace

int comb_fold_on_cuda(const CombRoute& route) {
  int code = 0;
  const std::unique_ptr<CudaBackend> b = open_cuda(code);
  if (b == nullptr) return code;
  std::printf("%s\n", b->name().c_str());
  Report report("comb_fold_parity --backend cuda");
  check_harness(*b, report);
  ThreadPool pool(ThreadPool::available_processors());
  for (const CombCase& c : route.cases) check(*b, report, pool, c);
  if (report.all_passed() && !route.ab.empty()) time(*b, report, route.ab);
  return report.finish(route.report, b->name());
}

}  // namespace argon::testing
