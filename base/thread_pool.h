// A fixed set of threads that run the units of one job at a time. Who runs a unit never changes what it
// computes: units of a job are independent, so any thread count gives the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace argon {

class ThreadPool {
 public:
  // `threads` counts the calling thread; values below 1 count as 1. Where the system starts fewer, size() is
  // what there is. Every thread flushes subnormals (fp_env.h).
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Chunks for each thread, unless `run` is told otherwise.
  static constexpr int64_t kChunks = 4;

  // Calls fn(begin, end) until the `units` units 0..units-1 have run once each, in chunks of about
  // units/(chunks*size), but no more than 256, and at least `grain`; returns when all have finished. One
  // caller at a time; not to be called from inside a job.
  template <class Fn>
  void run(int64_t units, int64_t grain, Fn&& fn, int64_t chunks = kChunks) {
    using F = std::remove_reference_t<Fn>;
    run_erased(
        units, grain, chunks, [](void* f, int64_t b, int64_t e) { (*static_cast<F*>(f))(b, e); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // While on, idle threads go on polling: for jobs that come at longer intervals, each of which is waited
  // for.
  void stay_awake(bool on);

  // The number of processors this process may use: the affinity mask, capped by the cgroup's CPU quota.
  static int available_processors();

 private:
  using Call = void (*)(void*, int64_t, int64_t);
  void run_erased(int64_t units, int64_t grain, int64_t chunks, Call call, void* context);
  bool run_one_chunk();
  void worker();

  // The job. Written only while no chunk is claimed or running, published by the store to claims_.
  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t units_ = 0;
  int64_t chunk_ = 1;
  int64_t chunks_ = 0;

  alignas(64) std::atomic<int64_t> claims_{0};    // chunks left to claim; <= 0 means none
  alignas(64) std::atomic<int64_t> finished_{0};  // chunks finished
  alignas(64) std::atomic<uint32_t> epoch_{0};    // bumped per job and at the end; sleepers wait on it
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false}, awake_{false};
  std::vector<std::thread> workers_;
};

}  // namespace argon
