#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace argon {
namespace {

TEST(ThreadPool, EveryUnitRunsOnceAtAnyThreadCount) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t units : {0, 1, 2, 3, 17, 64, 1000}) {
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(units));
        pool.run(units, 1, [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e; ++i)
            hits[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
        });
        for (auto& h : hits) ASSERT_EQ(h.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, JobsSeeTheResultsOfTheJobBefore) {
  ThreadPool pool(3);
  std::vector<int64_t> a(257, 1), b(257);
  for (int round = 0; round < 500; ++round) {
    pool.run(257, 1, [&](int64_t s, int64_t e) {
      for (int64_t i = s; i < e; ++i) b[static_cast<size_t>(i)] = a[static_cast<size_t>((i + 1) % 257)] + 1;
    });
    a.swap(b);
  }
  for (int64_t v : a) EXPECT_EQ(v, 501);
}

// In a process of its own with room for a few stacks.
void start_more_threads_than_there_is_room_for() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (uint64_t{64} << 20);
  const rlimit room{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &room) != 0) std::exit(3);
  ThreadPool pool(64);
  if (pool.size() >= 64) std::exit(4);
  std::atomic<int64_t> sum{0};
  pool.run(100, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) sum.fetch_add(i);
  });
  std::exit(sum.load() == 4950 ? 0 : 5);
}

TEST(ThreadPool, GoesOnWithTheThreadsThatThereAre) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(start_more_threads_than_there_is_room_for(), ::testing::ExitedWithCode(0), "");
}

TEST(ThreadPool, WorkersFlushSubnormals) {
  ThreadPool pool(4);
  std::atomic<int> kept{0};
  pool.run(64, 1, [&](int64_t, int64_t) {
    volatile float tiny = 1e-38f;
    volatile float smaller = tiny * 1e-3f;
    if (smaller != 0.0f) kept.fetch_add(1);
  });
  EXPECT_EQ(kept.load(), 0);
}

TEST(ThreadPool, SeesAtLeastOneProcessor) { EXPECT_GE(ThreadPool::available_processors(), 1); }

}  // namespace
}  // namespace argon
