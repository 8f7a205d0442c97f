// comb_fold_parity [T] [grvec]: the folded kernels of prompt.metal against combine, apply and norm done apart
// by the scalar references, word by word; grvec sets the product's kernels against the lab's baselines, in
// time (GPU) or counted work (executor). Without arguments: every size that takes under a minute. --backend
// cuda: the CUDA kernels instead (cuda/tests/prompt_route.h).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>

#include "base/fp_env.h"
#include "base/half.h"
#include "metal/tests/comb_run.h"
#ifdef ARGON_CUDA
#include "cuda/tests/prompt_route.h"
#endif

namespace argon::metal {
namespace {

struct Options {
  std::vector<std::string> words;  // T and grvec, in any order
  std::vector<uint32_t> T;
  bool grvec = false, ci = false, checks = false;
  std::string report, backend = "metal";
};

class Program {
 public:
  Program(Device& device, Report& report)
      : device_(device), report_(report), pool_(ThreadPool::available_processors()) {}

  void check(const CombSize& s, Absent absent);
  Status compare_in_pairs(const std::vector<uint32_t>& T);

 private:
  Pipeline pipeline(const std::string& entry, const Form& f, Verdict& v) {
    Pipeline& p = pipelines_[entry + (f.apply ? "+" : "-") + (f.half ? "h" : "f")];
    if (p == nullptr) {
      Result<Pipeline> made = comb_pipeline(device_, entry, f);
      v.status(entry.c_str(), made.status());
      if (made.ok()) p = *made;
    }
    return p;
  }

  Device& device_;
  Report& report_;
  ThreadPool pool_;
  std::map<std::string, Pipeline> pipelines_;
};

std::vector<uint16_t> narrowed(const std::vector<float>& v) {
  std::vector<uint16_t> h;
  h.reserve(v.size());
  for (float f : v) h.push_back(f32_to_f16(f));
  return h;
}

void Program::check(const CombSize& s, Absent absent) {
  const CombInputs in = comb_inputs(s, absent, 7919 * s.T + 131 * s.n + 17 * s.topk + s.C);
  const CombOutputs want = comb_reference(s, in, pool_);
  CombPass pass(device_, s, in);
  Verdict v;
  // One kernel: run it on fresh inputs, then compare all it may have written.
  auto step = [&](const std::string& entry, const Form& f, const std::function<Status(const Pipeline&)>& run,
                  const std::function<void(const char*)>& compare) {
    const Pipeline p = pipeline(entry, f, v);
    if (p == nullptr) return;
    pass.reset();
    const std::string name = entry + (f.apply ? "" : " apply 0") + (f.half ? " half" : "");
    v.status(name.c_str(), run(p));
    v.status(name.c_str(), device_.finish());
    compare(name.c_str());
  };
  auto compare_norm = [&](const Form& f, const std::vector<float>& x, const std::vector<float>& n) {
    return [&, f](const char* name) {
      v.equal((std::string(name) + ": x").c_str(), pass.x, x);
      if (f.half) {
        v.equal((std::string(name) + ": n").c_str(), pass.nh, narrowed(n));
      } else {
        v.equal((std::string(name) + ": n").c_str(), pass.n, n);
      }
    };
  };
  const bool lab = s.n == 2560 && s.C == 4;
  std::vector<std::string> combs = {"moe_comb"}, norms = {"gr_norm_h4"}, moecs = {"gr_norm_h_moec"},
                           applies = {"gr_apply_moec"};
  if (lab) {
    combs.push_back("moe_comb_base"), norms.push_back("gr_norm_h4_base"),
        applies.push_back("gr_apply_moec_base");
    moecs.push_back("gr_norm_h_moec_base"), moecs.push_back("gr_norm_h_moec_unrolled");
    if (s.topk <= 16) moecs.push_back("gr_norm_h_moec_swapped");
  }
  for (const std::string& e : combs) {
    step(
        e, {}, [&](const Pipeline& p) { return pass.moe_comb(p); },
        [&](const char* name) { v.equal(name, pass.combined, want.combined); });
  }
  for (const std::string& e : applies) {
    step(
        e, {}, [&](const Pipeline& p) { return pass.apply_moec(p); },
        [&](const char* name) { v.equal(name, pass.x, want.x_moe); });
  }
  for (const bool half : {true, false}) {
    const Form apply{true, half}, only{false, half};
    for (const std::string& e : norms) {
      step(
          e, apply, [&](const Pipeline& p) { return pass.norm(p, apply); },
          compare_norm(apply, want.x_b, want.n_b));
      step(
          e, only, [&](const Pipeline& p) { return pass.norm(p, only); },
          compare_norm(only, in.x, want.n_only));
    }
    for (const std::string& e : moecs) {
      step(
          e, apply, [&](const Pipeline& p) { return pass.norm_moec(p, apply); },
          compare_norm(apply, want.x_moe, want.n_moe));
    }
    for (const Form& f : {apply, only}) {
      const uint32_t which = (s.T + s.topk) % s.C;
      const std::vector<float>& x = f.apply ? want.x_b : in.x;
      step(
          "gr_norm_h_stream_out", f, [&](const Pipeline& p) { return pass.norm_stream_out(p, f, which); },
          [&](const char* name) {
            compare_norm(f, x, f.apply ? want.n_b : want.n_only)(name);
            std::vector<float> rows;
            for (size_t t = 0; t < s.T; ++t) {
              const auto from = x.begin() + static_cast<std::ptrdiff_t>((t * s.C + which) * s.n);
              rows.insert(rows.end(), from, from + s.n);
            }
            v.equal((std::string(name) + ": the stream").c_str(), pass.stream, rows);
          });
    }
  }
  report_.line("n=" + std::to_string(s.n) + " C=" + std::to_string(s.C) + " T=" + std::to_string(s.T) +
                   " topk=" + std::to_string(s.topk) + ", " + name_of(absent),
               v);
}

struct Contest {
  const char* title;
  const char *candidate, *baseline;
  Form form;
  std::function<Status(CombPass&, const Pipeline&, const Form&)> run;
};

const std::vector<Contest>& contests() {
  static const auto moec = [](CombPass& c, const Pipeline& p, const Form& f) { return c.norm_moec(p, f); };
  static const auto norm = [](CombPass& c, const Pipeline& p, const Form& f) { return c.norm(p, f); };
  static const std::vector<Contest> list = {
      {"gr_norm_h_moec (apply 1)", "gr_norm_h_moec", "gr_norm_h_moec_base", {true, true}, moec},
      {"gr_apply_moec (apply 1)",
       "gr_apply_moec",
       "gr_apply_moec_base",
       {true, true},
       [](CombPass& c, const Pipeline& p, const Form&) { return c.apply_moec(p); }},
      {"gr_norm_h4 (apply 1)", "gr_norm_h4", "gr_norm_h4_base", {true, true}, norm},
      {"gr_norm_h4 (apply 0)", "gr_norm_h4", "gr_norm_h4_base", {false, true}, norm},
      {"gr_norm_h_moec against loops swapped",
       "gr_norm_h_moec",
       "gr_norm_h_moec_swapped",
       {true, true},
       moec},
      {"gr_norm_h_moec against unrolled", "gr_norm_h_moec", "gr_norm_h_moec_unrolled", {true, true}, moec},
  };
  return list;
}

// 4 repetitions per sample, 5 alternating samples after one that warms up; on the executor one run each,
// counted.
Status Program::compare_in_pairs(const std::vector<uint32_t>& T) {
  const bool gpu = device_.is_gpu();
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t tokens : T) {
    const CombSize s{tokens, 4, 2560, 10};
    CombPass pass(device_, s, comb_inputs(s, Absent::kRandom, tokens));
    for (const Contest& c : contests()) {
      Verdict v;
      const Pipeline sides[2] = {pipeline(c.candidate, c.form, v), pipeline(c.baseline, c.form, v)};
      if (!v.ok()) return bad_input(v.why());
      std::vector<double> ms[2];
      Counters work[2];
      for (int sample = gpu ? -1 : 0; sample < (gpu ? 5 : 1); ++sample) {
        for (int side = 0; side < 2; ++side) {
          pass.reset();
          device_.reset_counters();
          for (int r = 0; r < (gpu ? 4 : 1); ++r) ARGON_RETURN_IF_ERROR(c.run(pass, sides[side], c.form));
          ARGON_RETURN_IF_ERROR(device_.finish());
          work[side] = device_.counters();
          if (sample >= 0) ms[side].push_back(1e3 * work[side].gpu_seconds / 4);
        }
      }
      if (gpu) {
        const Samples a = summarise(ms[0]), b = summarise(ms[1]);
        rows.push_back({std::to_string(tokens), c.title, number(a.median, 3), number(b.median, 3),
                        number(a.mean, 3), number(b.mean, 3), number(median_ratio(ms[0], ms[1]), 4)});
      } else {
        for (int side = 0; side < 2; ++side) {
          const Counters& w = work[side];
          rows.push_back({std::to_string(tokens), c.title, side == 0 ? c.candidate : c.baseline,
                          grouped_digits(w.device_loads), grouped_digits(w.device_stores),
                          grouped_digits(w.threadgroup_loads + w.threadgroup_stores),
                          grouped_digits(w.barriers), grouped_digits(w.simd_operations)});
        }
      }
    }
  }
  if (gpu) {
    report_.table("Time in ms at n = 2560, C = 4, 10 slots: 4 repetitions per sample, 5 alternating samples.",
                  {"T", "kernel", "candidate median", "baseline median", "candidate mean", "baseline mean",
                   "median ratio of pairs"},
                  rows);
  } else {
    report_.table("Counted on the executor at n = 2560, C = 4, 10 slots: this is work, not time.",
                  {"T", "contest", "kernel", "device loads", "device stores", "threadgroup accesses",
                   "barriers", "simd operations"},
                  rows);
  }
  return {};
}

std::vector<std::pair<CombSize, Absent>> cases(const Options& o) {
  std::vector<std::pair<CombSize, Absent>> all;
  std::vector<uint32_t> T = o.T;
  if (T.empty()) T = o.ci ? std::vector<uint32_t>{1, 7} : std::vector<uint32_t>{1, 7, 64, 512, 1024, 2048};
  for (const uint32_t t : T) all.push_back({{t, 4, 2560, 10}, Absent::kRandom});
  if (!o.T.empty()) return all;
  for (const Absent a : {Absent::kNone, Absent::kAll, Absent::kFirst, Absent::kLast, Absent::kAlternating})
    all.push_back({{3, 4, 2560, 10}, a});
  for (uint32_t topk = 1; topk <= 20; ++topk) all.push_back({{2, 4, 2560, topk}, Absent::kRandom});
  for (const uint32_t n : {128u, 129u, 256u, 511u, 512u, 1000u, 2560u}) {
    for (const uint32_t C : {1u, 2u, 3u, 4u, 5u}) all.push_back({{5, C, n, 10}, Absent::kRandom});
    for (const uint32_t topk : {1u, 16u, 17u}) all.push_back({{3, 4, n, topk}, Absent::kAlternating});
  }
  return all;
}

int run_cuda(const Options& o) {
  if (o.checks) return refuse_checks_on_cuda();
#ifdef ARGON_CUDA
  testing::CombRoute route{{}, {}, o.report};
  if (o.grvec) {
    route.ab = o.T.empty() ? std::vector<uint32_t>{512, 1024, 2048} : o.T;
    for (const uint32_t t : route.ab) route.cases.push_back({{t, 4, 2560, 10}, Absent::kRandom});
  } else {
    for (const auto& [size, absent] : cases(o)) route.cases.push_back({size, absent});
  }
  return testing::comb_fold_on_cuda(route);
#else
  return std::fprintf(stderr, "this build has no CUDA backend: cmake --preset cuda makes one\n"), 2;
#endif
}

int run(Options o) {
  for (const std::string& w : o.words) {
    uint32_t t = 0;
    if (w == "grvec")
      o.grvec = true;
    else if (std::sscanf(w.c_str(), "%u", &t) == 1 && t > 0 && t <= 65536)
      o.T.push_back(t);
    else
      return std::fprintf(stderr, "'%s' is neither a token count nor grvec\n", w.c_str()), 2;
  }
  if (o.backend == "cuda") return run_cuda(o);
  DeviceOptions d;
  d.checks = o.checks;
  Result<std::unique_ptr<Device>> device = Device::open(d);
  if (device.ok() && o.grvec && !(*device)->is_gpu() && !o.checks) {  // counting needs every access
    d.checks = true;
    device = Device::open(d);
  }
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.status().message().c_str()), 1;
  std::printf("%s\n", (*device)->description().c_str());
  Report report("comb_fold_parity");
  Verdict self;
  if (!comparison_catches_a_flipped_bit(**device)) self.fail("a flipped bit or a write outside went unseen");
  report.line("the comparison itself", self);
  Program program(**device, report);
  std::vector<uint32_t> T = o.T;
  if (o.grvec) {
    if (T.empty())
      T = (*device)->is_gpu() ? std::vector<uint32_t>{512, 1024, 2048} : std::vector<uint32_t>{64};
    for (const uint32_t t : T) program.check({t, 4, 2560, 10}, Absent::kRandom);
    if (report.all_passed()) {
      const Status s = program.compare_in_pairs(T);
      if (!s.ok()) return std::fprintf(stderr, "%s\n", s.message().c_str()), 1;
    }
    return report.finish(o.report, (*device)->description());
  }
  for (const auto& [size, absent] : cases(o)) program.check(size, absent);
  return report.finish(o.report, (*device)->description());
}

}  // namespace
}  // namespace argon::metal

int main(int argc, char** argv) {
  argon::metal::Options o;
  CLI::App app("Folded combine, apply and norm kernels against the scalar references");
  app.add_option("words", o.words,
                 "tokens per pass (default: 1 7 64 512 1024 2048), grvec: product against baselines");
  app.add_flag("--ab", o.grvec, "the same as grvec");
  app.add_flag("--ci", o.ci, "T = 1 and 7 only");
  app.add_flag("--checks", o.checks, "executor: check every access (not with --backend cuda)");
  app.add_option("--backend", o.backend, "metal (a Mac's GPU, or the executor) or cuda")
      ->check(CLI::IsMember({"metal", "cuda"}));
  app.add_option("--report", o.report, "write the result as a Markdown page");
  CLI11_PARSE(app, argc, argv);
  const argon::ScopedFlushSubnormals flush;
  return argon::metal::run(o);
}
