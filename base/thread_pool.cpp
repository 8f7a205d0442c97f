#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "base/fp_env.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace argon {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About 50 microseconds of polling: longer than the gaps between the operations of one token, so that a
// thread does not go to sleep inside one, short enough not to burn a core while the user thinks.
constexpr int kSpins = 2000;

// Units of one chunk at most. Where many units are empty (the experts that a token does not choose), larger
// chunks would give one thread several full ones and another none.
constexpr int64_t kMostUnits = 256;

// CPUs that a cgroup v2 or v1 quota allows, rounded up; a large number when there is no quota.
int cgroup_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) {
    return std::max(1, static_cast<int>((std::strtod(quota.c_str(), nullptr) + period - 1) / period));
  }
  std::ifstream q1("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p1("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double q = 0;
  if (q1 >> q && p1 >> period && q > 0 && period > 0)
    return std::max(1, static_cast<int>((q + period - 1) / period));
  return 1 << 20;
}

}  // namespace

int ThreadPool::available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int n = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  if (n < 1) n = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(std::min(n, cgroup_quota()), 1, 1024);
}

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { worker(); });
  } catch (const std::system_error&) {
    // The system gives no more: those that there are do the work.
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& w : workers_) w.join();
}

void ThreadPool::stay_awake(bool on) {
  if (awake_.exchange(on) == on || !on) return;
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) epoch_.notify_all();
}

// A claim counts claims_ down; only a positive old value owns a chunk. A late thread that finds an exhausted
// counter owns nothing, and one that finds the next job's counter owns a chunk of that job, whose description
// it then sees: the job cannot be replaced before that chunk is finished.
bool ThreadPool::run_one_chunk() {
  if (claims_.load(std::memory_order_relaxed) <= 0) return false;
  const int64_t left = claims_.fetch_sub(1, std::memory_order_acq_rel);
  if (left <= 0) return false;
  const int64_t begin = (chunks_ - left) * chunk_;
  call_(context_, begin, std::min(begin + chunk_, units_));
  finished_.fetch_add(1, std::memory_order_release);
  return true;
}

void ThreadPool::run_erased(int64_t units, int64_t grain, int64_t chunks, Call call, void* context) {
  if (units <= 0) return;
  const int64_t pieces = chunks * static_cast<int64_t>(size());
  const int64_t chunk = std::max({int64_t{1}, grain, std::min(kMostUnits, (units + pieces - 1) / pieces)});
  if (workers_.empty() || chunk >= units) {
    call(context, 0, units);
    return;
  }
  call_ = call;
  context_ = context;
  units_ = units;
  chunk_ = chunk;
  chunks_ = (units + chunk - 1) / chunk;
  finished_.store(0, std::memory_order_relaxed);
  claims_.store(chunks_, std::memory_order_release);
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) epoch_.notify_all();

  while (run_one_chunk()) {
  }
  for (int spins = 0; finished_.load(std::memory_order_acquire) != chunks_; ++spins) {
    if (spins < kSpins) {
      pause_cpu();
    } else {
      sched_yield();  // the thread that holds the last chunk may be waiting for this very core
    }
  }
}

void ThreadPool::worker() {
  ScopedFlushSubnormals flush;
  int idle = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (run_one_chunk()) {
      idle = 0;
      continue;
    }
    if (awake_.load(std::memory_order_relaxed) || ++idle < kSpins) {
      pause_cpu();
      continue;
    }
    const uint32_t seen = epoch_.load();
    sleepers_.fetch_add(1);
    if (claims_.load() <= 0 && !stop_.load()) epoch_.wait(seen);
    sleepers_.fetch_sub(1);
    idle = 0;
  }
}

}  // namespace argon
