// What the executor remembers of each byte of threadgroup memory, to find reads before writes and races.
//
// Two accesses of one byte by different threads, one of them a write, need a barrier in between: a
// threadgroup barrier, or a simdgroup barrier if both threads are of one simdgroup. Barriers count only if
// they order threadgroup memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace argon::metal {

struct ShadowFault {
  enum class Kind { kNone, kUnwritten, kReadRace, kWriteRace } kind = Kind::kNone;
  uint32_t other = 0;  // index of the other thread, or kMany
  bool other_wrote = false;
};

class Shadow {
 public:
  static constexpr uint32_t kMany = 0xffffffffu;  // more than one thread

  explicit Shadow(size_t bytes) : cells_(bytes) {}

  void start_group(uint32_t simdgroups) {
    group_start_ = ++epoch_;
    simd_epoch_.assign(simdgroups, 0);
  }
  void threadgroup_barrier() { ++epoch_; }
  void simdgroup_barrier(uint32_t simdgroup) { ++simd_epoch_[simdgroup]; }

  // `thread` of `simdgroup` touches bytes offset..offset+n-1.
  ShadowFault access(size_t offset, size_t n, bool write, bool atomic, uint32_t thread, uint32_t simdgroup);

 private:
  struct Touch {
    uint32_t epoch = 0, simd_epoch = 0;
    uint32_t thread = 0;
    uint32_t simdgroup = 0;  // kMany: threads of several simdgroups
    bool atomic = false;
  };
  struct Cell {
    Touch write, read;
  };

  bool ordered(const Touch& t, uint32_t thread, uint32_t simdgroup) const {
    if (t.epoch != epoch_ || t.thread == thread) return true;
    return t.simdgroup == simdgroup && t.simd_epoch != simd_epoch_[simdgroup];
  }

  std::vector<Cell> cells_;
  std::vector<uint32_t> simd_epoch_;
  uint32_t epoch_ = 0, group_start_ = 0;
};

}  // namespace argon::metal
