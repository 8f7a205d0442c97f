// gdn_prompt_parity: the GDN prompt kernels against the scalar reference, word by word, and the two head
// schedules against each other in time (GPU) or counted work (executor). Without arguments: every size that
// takes under a minute. --backend cuda: the CUDA kernels instead (cuda/tests/prompt_route.h).
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>

#include "base/fp_env.h"
#include "metal/tests/gdn_run.h"
#ifdef ARGON_CUDA
#include "cuda/tests/prompt_route.h"
#endif

namespace argon::metal {
namespace {

struct Options {
  std::vector<uint32_t> T;
  std::vector<std::string> shapes;
  bool ci = false, ab = false, checks = false;
  int layers = 36;
  std::string report, backend = "metal";
};

struct Program {
  Device& device;
  const GdnPipelines& pipelines;
  Report& report;
};

std::string label(const GdnSize& s, const std::string& what) {
  return "(" + std::to_string(s.hk) + "," + std::to_string(s.hv) + ") T=" + std::to_string(s.T) + " " + what;
}

void check(Program& p, const GdnSize& s) {
  const auto start = std::chrono::steady_clock::now();
  const GdnInputs in = gdn_inputs(s, 1000 * s.T + s.hv);
  ThreadPool pool(ThreadPool::available_processors());
  const GdnOutputs want = gdn_reference(s, in, pool);
  const auto referenced = std::chrono::steady_clock::now();
  GdnLayer layer(p.device, p.pipelines, s, in);

  Verdict pre;
  pre.status("gdn_pre", layer.pre());
  pre.status("gdn_pre", p.device.finish());
  pre.equal("qn", layer.qn, want.qn);
  pre.equal("kn", layer.kn, want.kn);
  pre.equal("vc", layer.vc, want.vc);
  pre.equal("gb", layer.gb, want.gb);
  pre.equal("kq", layer.kq, want.kq);
  pre.equal("history", layer.history_out, want.history);
  p.report.line(label(s, "gdn_pre"), pre);

  auto scan = [&](const char* name, const Pipeline& pipeline) {
    Verdict v;
    layer.restore_state();
    layer.o.poison();
    v.status(name, layer.scan(pipeline));
    v.status(name, p.device.finish());
    v.equal("o", layer.o, want.o);
    v.equal("state", layer.state, want.state);
    p.report.line(label(s, name), v);
  };
  scan("gdn_scanr_4 plain", p.pipelines.scan[0]);
  scan("gdn_scanr_4 grouped", p.pipelines.scan[1]);
  if (s.T <= 512) scan("gdn_scanr_4_sg0 (lab)", p.pipelines.scan_sg0[0]);

  for (const bool half : {true, false}) {
    Verdict v;
    v.status("gdn_post", layer.post(half));
    v.status("gdn_post", p.device.finish());
    half ? v.equal("yh", layer.yh, want.yh) : v.equal("y", layer.y, want.y);
    p.report.line(label(s, half ? "gdn_post f32=0" : "gdn_post f32=1"), v);
  }
  const std::chrono::duration<double> ref = referenced - start,
                                      all = std::chrono::steady_clock::now() - start;
  std::printf("      %.1f s, of these the reference %.1f s\n", all.count(), ref.count());
}

// A pass in two pieces, history and state carried over, gives the words of the whole pass.
void check_cut(Program& p, const GdnSize& s, uint32_t at) {
  const GdnInputs in = gdn_inputs(s, 77 * s.T + at);
  ThreadPool pool(ThreadPool::available_processors());
  const GdnOutputs want = gdn_reference(s, in, pool);
  const GdnSize parts[] = {{at, s.hk, s.hv}, {s.T - at, s.hk, s.hv}};
  GdnLayer first(p.device, p.pipelines, parts[0], in);
  GdnInputs second_in = in;
  Verdict v;
  v.status("pass 1", first.pre());
  v.status("pass 1", first.scan(p.pipelines.scan[1]));
  v.status("pass 1", p.device.finish());
  second_in.history.assign(first.history_out.data(), first.history_out.data() + first.history_out.size());
  second_in.state.assign(first.state.data(), first.state.data() + first.state.size());
  GdnLayer second(p.device, p.pipelines, parts[1], second_in);
  second.load_tokens(in, at);
  v.status("pass 2", second.pre());
  v.status("pass 2", second.scan(p.pipelines.scan[1]));
  v.status("pass 2", p.device.finish());
  v.equal("history", second.history_out, want.history);
  v.equal("state", second.state, want.state);
  const size_t width = size_t{s.hv} * s.D;
  v.equal("o of pass 1", first.o, {want.o.begin(), want.o.begin() + static_cast<std::ptrdiff_t>(at * width)});
  v.equal("o of pass 2", second.o, {want.o.begin() + static_cast<std::ptrdiff_t>(at * width), want.o.end()});
  p.report.line(label(s, "cut at " + std::to_string(at)), v);
}

struct Stage {
  const char* name;
  std::function<Status(GdnLayer&, Schedule)> run;
};

const std::vector<Stage>& stages(const GdnPipelines& p) {
  static const std::vector<Stage> s = {
      {"gdn_pre", [](GdnLayer& l, Schedule) { return l.pre(); }},
      {"gdn_scanr_4", [&p](GdnLayer& l, Schedule sched) { return l.scan(p.scan[static_cast<int>(sched)]); }},
      {"gdn_post", [](GdnLayer& l, Schedule) { return l.post(false); }},
  };
  return s;
}

// GPU: milliseconds of `layers` layers per sample, samples in alternating pairs.
Status time_pairs(Program& p, const Options& o) {
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t T : o.T) {
    const GdnSize s{T, 16, 48};
    GdnLayer layer(p.device, p.pipelines, s, gdn_inputs(s, 5));
    ARGON_RETURN_IF_ERROR(layer.pre());
    for (const Stage& stage : stages(p.pipelines)) {
      std::vector<double> ms[2];
      for (int sample = -1; sample < 3; ++sample) {  // the first pair warms up
        for (const Schedule schedule : {Schedule::kPlain, Schedule::kGrouped}) {
          layer.restore_state();
          p.device.reset_counters();
          for (int l = 0; l < o.layers; ++l) ARGON_RETURN_IF_ERROR(stage.run(layer, schedule));
          ARGON_RETURN_IF_ERROR(p.device.finish());
          if (sample >= 0) ms[static_cast<int>(schedule)].push_back(1e3 * p.device.counters().gpu_seconds);
        }
      }
      const Samples a = summarise(ms[0]), b = summarise(ms[1]);
      auto text = [](const Samples& x) {
        return number(x.median, 3) + " (" + number(x.min, 3) + " to " + number(x.max, 3) + ")";
      };
      rows.push_back(
          {std::to_string(T), stage.name, text(a), text(b), number(median_ratio(ms[1], ms[0]), 4)});
    }
  }
  p.report.table(
      "Time of " + std::to_string(o.layers) + " layers in ms, median of 3 (min to max), pairs alternating.",
      {"T", "stage", "plain ms", "grouped ms", "median ratio of pairs"}, rows);
  return {};
}

// Executor: what one layer does, and how many distinct bytes of qn and kn the threadgroups that run at one
// time touch.
Status count_work(Program& p, const Options& o) {
  std::vector<std::vector<std::string>> rows;
  for (const uint32_t T : o.T) {
    const GdnSize s{T, 16, 48};
    GdnLayer layer(p.device, p.pipelines, s, gdn_inputs(s, 5));
    ARGON_RETURN_IF_ERROR(layer.pre());
    for (const Stage& stage : stages(p.pipelines)) {
      const bool scan = std::string(stage.name) == "gdn_scanr_4";
      for (const Schedule schedule : {Schedule::kPlain, Schedule::kGrouped}) {
        const void* watched[] = {layer.qn.data(), layer.kn.data()};
        ARGON_RETURN_IF_ERROR(
            p.device.watch(scan ? std::span<const void* const>(watched) : std::span<const void* const>()));
        p.device.reset_counters();
        ARGON_RETURN_IF_ERROR(stage.run(layer, schedule));
        ARGON_RETURN_IF_ERROR(p.device.finish());
        const Counters c = p.device.counters();
        std::vector<std::string> row = {std::to_string(T),
                                        stage.name,
                                        schedule == Schedule::kPlain ? "plain" : "grouped",
                                        grouped_digits(c.device_loads),
                                        grouped_digits(c.device_stores),
                                        grouped_digits(c.threadgroup_loads + c.threadgroup_stores),
                                        grouped_digits(c.barriers)};
        for (const uint32_t window : {8u, 16u, 32u, 64u}) {
          double mean = 0;
          for (size_t w = 0; scan && w < 2; ++w) {
            Result<Locality> l = p.device.locality(w, window);
            ARGON_RETURN_IF_ERROR(l.status());
            mean += l->mean_bytes;
          }
          row.push_back(scan ? number(mean / (1 << 20), 2) : "");
        }
        rows.push_back(row);
      }
    }
  }
  ARGON_RETURN_IF_ERROR(p.device.watch({}));
  p.report.table(
      "Counted on the executor, one layer at (16,48): this is work, not time. The last four columns are the "
      "distinct MiB of "
      "qn and kn that 8, 16, 32, 64 threadgroups running at one time touch, mean over the grid.",
      {"T", "stage", "schedule", "device loads", "device stores", "threadgroup accesses", "barriers", "8",
       "16", "32", "64"},
      rows);
  return {};
}

std::vector<GdnSize> sizes(const Options& o) {
  std::vector<std::pair<uint32_t, uint32_t>> shapes = {{16, 48}, {2, 6}, {1, 3}, {2, 4}, {2, 2}};
  if (!o.shapes.empty()) {
    shapes.clear();
    for (const std::string& s : o.shapes) {
      uint32_t hk = 0, hv = 0;
      if (std::sscanf(s.c_str(), "%u,%u", &hk, &hv) == 2 && hk > 0 && hv % hk == 0 && hv > 0)
        shapes.emplace_back(hk, hv);
      else
        std::fprintf(stderr, "shape '%s' is not hk,hv with hv a multiple of hk; left out\n", s.c_str());
    }
  }
  std::vector<uint32_t> T = o.T;
  if (T.empty())
    T = o.ci ? std::vector<uint32_t>{1, 3, 16, 17, 32, 37, 300}
             : std::vector<uint32_t>{1, 3, 16, 17, 32, 37, 300, 512, 1024, 2048};
  std::vector<GdnSize> out;
  for (const auto& [hk, hv] : shapes) {
    for (const uint32_t t : T) {
      if (t > 0) out.push_back({t, hk, hv});
    }
  }
  return out;
}

int run_cuda(const Options& o) {
  if (o.checks) return refuse_checks_on_cuda();
#ifdef ARGON_CUDA
  Options options = o;
  testing::GdnRoute route{{}, {}, o.layers, o.report};
  if (o.ab) {
    if (options.T.empty()) options.T = {512, 1024, 2048};
    options.shapes = {"16,48"};
    route.ab = options.T;
  }
  route.sizes = sizes(options);
  return testing::gdn_prompt_on_cuda(route);
#else
  return std::fprintf(stderr, "this build has no CUDA backend: cmake --preset cuda makes one\n"), 2;
#endif
}

int run(const Options& o) {
  if (o.backend == "cuda") return run_cuda(o);
  DeviceOptions d;
  d.checks = o.checks;
  Result<std::unique_ptr<Device>> device = Device::open(d);
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.status().message().c_str()), 1;
  if (o.ab && !(*device)->is_gpu()) {  // counting needs every access
    d.checks = true;
    device = Device::open(d);
    if (!device.ok()) return std::fprintf(stderr, "%s\n", device.status().message().c_str()), 1;
  }
  Result<GdnPipelines> pipelines = GdnPipelines::create(**device);
  if (!pipelines.ok()) return std::fprintf(stderr, "%s\n", pipelines.status().message().c_str()), 1;
  Report report("gdn_prompt_parity");
  std::printf("%s\n", (*device)->description().c_str());
  Verdict self;
  if (!comparison_catches_a_flipped_bit(**device)) self.fail("a flipped bit or a write outside went unseen");
  report.line("the comparison itself", self);
  Program p{**device, *pipelines, report};
  Options options = o;
  if (o.ab) {
    // Speed only behind a green gate: the sizes timed are first compared.
    if (options.T.empty()) options.T = {512, 1024, 2048};
    options.shapes = {"16,48"};
    for (const GdnSize& s : sizes(options)) {
      if ((*device)->is_gpu() || s.T <= 64) check(p, s);
    }
    if (!report.all_passed()) return report.finish(o.report, (*device)->description());
    const Status s = (*device)->is_gpu() ? time_pairs(p, options) : count_work(p, options);
    if (!s.ok()) return std::fprintf(stderr, "%s\n", s.message().c_str()), 1;
    return report.finish(o.report, (*device)->description());
  }
  for (const GdnSize& s : sizes(options)) {
    check(p, s);
    if (s.T > 1 && s.T <= 37) {
      check_cut(p, s, 1);
      if (s.T > 3) check_cut(p, s, s.T / 2);
    }
  }
  return report.finish(o.report, (*device)->description());
}

}  // namespace
}  // namespace argon::metal

int main(int argc, char** argv) {
  argon::metal::Options o;
  CLI::App app("GDN prompt kernels against the scalar reference");
  app.add_option("-T,--T", o.T, "tokens per pass (default: 1 3 16 17 32 37 300 512 1024 2048)");
  app.add_option("--shape", o.shapes, "key and value heads, as 16,48; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--ci", o.ci, "T up to 300 only");
  app.add_flag("--ab", o.ab, "plain against grouped schedule: time on a GPU, counted work on the executor");
  app.add_flag("--checks", o.checks, "executor: check every access (not with --backend cuda)");
  app.add_option("--layers", o.layers, "dispatches per timed sample");
  app.add_option("--backend", o.backend, "metal (a Mac's GPU, or the executor) or cuda")
      ->check(CLI::IsMember({"metal", "cuda"}));
  app.add_option("--report", o.report, "write the result as a Markdown page");
  CLI11_PARSE(app, argc, argv);
  const argon::ScopedFlushSubnormals flush;
  return argon::metal::run(o);
}
