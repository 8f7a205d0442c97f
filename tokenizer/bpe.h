// Byte-pair merging: of all neighbouring pairs that have a merge, the one of the lowest rank is joined, the
// leftmost of equals first, until none is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace argon {

// The merges by pair of token ids: open addressing, 16 bytes per slot, about half full (8 MB for 247 k
// merges).
class MergeTable {
 public:
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t rank;  // lower merges first
    int32_t result;
  };
  static constexpr int32_t kNoRank = INT32_MAX;

  // Makes room for `count` merges; drops what was there.
  void reserve(size_t count);
  // Adds a merge (at most the reserved count). If the pair is there already, it is left as it is and its rank
  // returned; otherwise -1.
  int32_t insert(const Merge& merge);
  // The merge of a pair, or nullptr.
  const Merge* find(int32_t left, int32_t right) const {
    if (slots_.empty()) return nullptr;
    for (size_t at = slot_of(left, right);; at = (at + 1) & mask_) {
      const Merge& m = slots_[at];
      if (m.left == left && m.right == right) return &m;
      if (m.left < 0) return nullptr;
    }
  }
  size_t memory_bytes() const { return slots_.capacity() * sizeof(Merge); }

 private:
  size_t slot_of(int32_t left, int32_t right) const {
    const uint64_t key =
        (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
    const uint64_t h = key * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>((h ^ (h >> 32)) * 0xD6E8FEB86659FD93u >> shift_) & mask_;
  }

  std::vector<Merge> slots_;
  size_t mask_ = 0;
  unsigned shift_ = 0;
};

// Merges pieces; holds the scratch memory, so one object serves one thread. Short pieces are searched pair by
// pair, longer ones keep their pairs in a heap: O(n log n) for n ids. Both give the same ids.
class BpeMerger {
 public:
  static constexpr size_t kShort = 32;
  static constexpr size_t kMaxIds = size_t{1} << 30;

  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}

  // Appends the merged `ids` (at most kMaxIds) to `out`. `short_limit`: up to this many ids the pairwise
  // search is used.
  void merge(std::span<const int32_t> ids, std::vector<int32_t>& out, size_t short_limit = kShort);

  // Pairs looked at so far (tests check how this grows).
  uint64_t steps() const { return steps_; }

 private:
  struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
    int32_t
        rank;  // of the merge with the next symbol; kNoRank if there is none or the symbol was merged away
  };
  void merge_short(std::span<const int32_t> ids, std::vector<int32_t>& out);
  void merge_long(std::span<const int32_t> ids, std::vector<int32_t>& out);
  bool rank_pair(int32_t at);

  const MergeTable& merges_;
  std::vector<int32_t> ids_, ranks_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // rank << 32 | index of the left symbol; the lowest on top
  uint64_t steps_ = 0;
};

}  // namespace argon
