#include "metal/executor/shadow.h"

namespace argon::metal {

ShadowFault Shadow::access(size_t offset, size_t n, bool write, bool atomic, uint32_t thread,
                           uint32_t simdgroup) {
  using Kind = ShadowFault::Kind;
  for (size_t i = offset; i < offset + n; ++i) {
    Cell& c = cells_[i];
    const Touch now{epoch_, simd_epoch_[simdgroup], thread, simdgroup, atomic};
    if (!write && c.write.epoch < group_start_) return {Kind::kUnwritten, 0, false};
    if (!ordered(c.write, thread, simdgroup) && !(atomic && c.write.atomic)) {
      return {write ? Kind::kWriteRace : Kind::kReadRace, c.write.thread, true};
    }
    if (!write) {
      Touch& r = c.read;
      if (r.epoch != epoch_) {
        r = now;
      } else if (r.simdgroup != simdgroup) {
        r.simdgroup = r.thread = kMany;  // any write by anyone now needs a threadgroup barrier first
      } else if (r.simd_epoch != simd_epoch_[simdgroup]) {
        r = now;  // the earlier reads of this simdgroup are ordered before this one
      } else if (r.thread != thread) {
        r.thread = kMany;
      }
    } else {
      if (!ordered(c.read, thread, simdgroup)) return {Kind::kWriteRace, c.read.thread, false};
      c.write = now;
    }
  }
  return {};
}

}  // namespace argon::metal
