// cpu_bench: how fast single operations run at the real widths, per route of their tables, behind a parity
// check.
//
//   cpu_bench [FILTER] [--threads N] [--turns N]     operations whose name contains FILTER
//
// Each case first runs a small form of itself against the scalar reference; a kernel with wrong bits is not
// timed. Then come short turns with 1 and N threads. Shown are the fastest turn, which is what a shared
// machine disturbs least, and the median; bytes are those of weights, states and caches, products those of
// the operation's definition.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "cpu/bench/op_cases.h"
#include "cpu/cpu_backend.h"
#include "ops/routes.h"

namespace argon::bench {
namespace {

struct Options {
  std::string filter;
  int threads = ThreadPool::available_processors(), turns = 30;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// Of this thread: what others take of the machine does not count.
double processor_seconds_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Times {
  double fastest, median;
};

// At least `turns` turns and at most about two seconds.
template <class Fn>
Times measure(int turns, double (*now)(), Fn&& fn) {
  fn();
  std::vector<double> times;
  const double begin = seconds_now();
  while (static_cast<int>(times.size()) < 3 ||
         (static_cast<int>(times.size()) < turns && seconds_now() - begin < 2.0)) {
    const double start = now();
    fn();
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  return {times[0], times[times.size() / 2]};
}

template <class Args>
bool same_bits(const Case<Args>& c, const ops::Route<Args>& route) {
  testing::TestArena reference(1, 0x7fc0dead), arena(1, 0x7fc0beef);
  const Args expected = c.make(reference, true), got = c.make(arena, true);
  const auto& routes = ops::routes_of(&expected);
  routes[std::size(routes) - 1].run(expected, 0, units(expected));
  route.run(got, 0, units(got));
  return arena.difference(reference).empty();
}

template <class Args>
bool run_case(const Options& o, const Case<Args>& c) {
  if (c.name.find(o.filter) == std::string::npos) return true;
  bool good = true;
  const Args* none = nullptr;
  for (const auto& route : ops::routes_of(none)) {
    if (route.isa > detect_isa() || route.isa == ops::Isa::kScalar) continue;
    if (c.rows < route.min_rows || c.rows > route.max_rows) continue;
    if (!same_bits(c, route)) {
      fmt::print("{:<34} {:<22} WRONG BITS, not timed\n", c.name, route.name);
      good = false;
      continue;
    }
    testing::TestArena arena(1, 0);
    const Args args = c.make(arena, false);
    for (const int threads : {1, o.threads}) {
      ThreadPool pool(threads);
      const Times t = measure(o.turns, threads == 1 ? processor_seconds_now : seconds_now, [&] {
        pool.run(units(args), 1, [&](int64_t begin, int64_t end) { route.run(args, begin, end); });
      });
      std::string rates;
      if (c.bytes > 0) rates += fmt::format("{:8.2f} GB/s", c.bytes / t.fastest * 1e-9);
      if (c.products > 0) rates += fmt::format("{:8.2f} G products/s", c.products / t.fastest * 1e-9);
      fmt::print("{:<34} {:<22} {} thr {:10.1f} us (median {:10.1f}){}\n", c.name, route.name, threads,
                 t.fastest * 1e6, t.median * 1e6, rates);
      std::fflush(stdout);
      if (o.threads == 1) break;
    }
  }
  return good;
}

bool run_all(const Options& o) {
  bool good = true;
  const auto all = [&](const auto& cases) {
    for (const auto& c : cases) good = run_case(o, c) && good;
  };
  all(step_matmuls());
  all(prompt_matmuls());
  all(grouped_matmuls());
  all(quantize_benches());
  all(gdn_pre_benches());
  all(gdn_scan_benches());
  all(gdn_post_benches());
  all(attention_benches());
  all(select_benches());
  all(gr_norm_benches());
  all(gr_mix_benches());
  all(combine_benches());
  return good;
}

}  // namespace
}  // namespace argon::bench

int main(int argc, char** argv) {
  argon::bench::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if ((a == "--threads" || a == "--turns") && i + 1 < argc) {
      (a == "--threads" ? o.threads : o.turns) = std::max(1, std::atoi(argv[++i]));
    } else if (a.rfind("--", 0) == 0) {
      fmt::print(stderr, "unknown option {}: wanted [FILTER] [--threads N] [--turns N]\n", a);
      return 2;
    } else {
      o.filter = a;
    }
  }
  const argon::ScopedFlushSubnormals flush;
  return argon::bench::run_all(o) ? 0 : 1;
}
