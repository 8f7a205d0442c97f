// Dividing a device's memory: what must be there, and how many experts of each layer fit beside it; and which
// experts those should be, by how often they are used. Pure arithmetic: `argon inspect` and the backend that
// places (tiered_backend.h) both ask here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "ops/memory_needs.h"

namespace argon::tiers {

// Experts of each layer on the device.
struct Plan {
  std::vector<int64_t> resident;
  int64_t experts = 0;  // of all layers
  uint64_t resident_bytes = 0, passing_bytes = 0;
  int64_t passing =
      0;  // experts of a largest layer that there is room for besides, to pass through in prompts
  bool whole = false;         // every expert is on the device
  bool table = false;         // and the n-gram table, too
  uint64_t device_bytes = 0;  // of all that is there
};

// When not all experts fit, room for a 16th of a layer's (32 at most) is set aside, if it is no more than an
// 8th of what is left. Every layer gets the same share of its experts, what is left over goes to the first
// layers; the n-gram table comes last. kResource when `budget` does not hold what must be there: says how
// much is wanted, by what, and which options help.
Result<Plan> divide(const ops::MemoryNeeds& needs, uint64_t budget);

// The same for one more model, on a device of which others have `taken` bytes: all of it or, as kResource,
// nothing, since the host computes experts of one model only.
Result<Plan> fit_beside(const ops::MemoryNeeds& needs, uint64_t budget, uint64_t taken);

// How hot the experts of a layer are, and which of them ought to change places.
class Heat {
 public:
  explicit Heat(int64_t experts) : counts_(static_cast<size_t>(experts)) {}

  // `uses[e]`: rows that expert e has computed in a pass of `tokens` tokens. Earlier uses count half after
  // every kHalfLife tokens.
  void add(std::span<const int32_t> uses, int64_t tokens);

  struct Swap {
    int64_t slot;  // of the resident expert that leaves
    int64_t expert;
  };
  // The best exchanges, at most `limit`: `resident[slot]` is the expert in each slot. An expert comes only
  // for one that was used clearly less, so that equally hot ones do not change places for ever.
  std::vector<Swap> swaps(std::span<const int32_t> resident, int64_t limit) const;

  static constexpr int64_t kHalfLife = 2048;

 private:
  std::vector<uint32_t> counts_;
  int64_t since_ = 0;  // tokens since the counts were halved
};

}  // namespace argon::tiers
