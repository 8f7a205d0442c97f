#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace argon {

void MergeTable::reserve(size_t count) {
  const size_t slots = std::bit_ceil(count * 2 + 2);
  slots_.assign(slots, Merge{-1, -1, 0, 0});
  mask_ = slots - 1;
  shift_ = static_cast<unsigned>(64 - std::countr_zero(slots));
}

int32_t MergeTable::insert(const Merge& merge) {
  size_t at = slot_of(merge.left, merge.right);
  for (; slots_[at].left >= 0; at = (at + 1) & mask_) {
    if (slots_[at].left == merge.left && slots_[at].right == merge.right) return slots_[at].rank;
  }
  slots_[at] = merge;
  return -1;
}

void BpeMerger::merge(std::span<const int32_t> ids, std::vector<int32_t>& out, size_t short_limit) {
  if (ids.size() < 2) {
    out.insert(out.end(), ids.begin(), ids.end());
  } else if (ids.size() <= short_limit) {
    merge_short(ids, out);
  } else {
    merge_long(ids, out);
  }
}

void BpeMerger::merge_short(std::span<const int32_t> ids, std::vector<int32_t>& out) {
  const auto rank_of = [this](size_t i) {
    ++steps_;
    const MergeTable::Merge* m = merges_.find(ids_[i], ids_[i + 1]);
    return m == nullptr ? MergeTable::kNoRank : m->rank;
  };
  ids_.assign(ids.begin(), ids.end());
  ranks_.resize(ids.size() - 1);  // ranks_[i]: of the pair (i, i + 1)
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i] = rank_of(i);
  while (!ranks_.empty()) {
    const auto lowest = std::min_element(ranks_.begin(), ranks_.end());
    if (*lowest == MergeTable::kNoRank) break;
    const size_t i = static_cast<size_t>(lowest - ranks_.begin());
    ids_[i] = merges_.find(ids_[i], ids_[i + 1])->result;
    ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks_.erase(lowest);
    if (i > 0) ranks_[i - 1] = rank_of(i - 1);
    if (i < ranks_.size()) ranks_[i] = rank_of(i);
  }
  out.insert(out.end(), ids_.begin(), ids_.end());
}

// Looks up the merge of a symbol with its next; true if there is one, which is then at the end of heap_ (not
// yet in its place).
bool BpeMerger::rank_pair(int32_t at) {
  ++steps_;
  Symbol& left = symbols_[static_cast<size_t>(at)];
  left.rank = MergeTable::kNoRank;
  if (left.next < 0) return false;
  const MergeTable::Merge* m = merges_.find(left.id, symbols_[static_cast<size_t>(left.next)].id);
  if (m == nullptr) return false;
  left.rank = m->rank;
  heap_.push_back(static_cast<uint64_t>(m->rank) << 32 | static_cast<uint32_t>(at));
  return true;
}

void BpeMerger::merge_long(std::span<const int32_t> ids, std::vector<int32_t>& out) {
  const int32_t n = static_cast<int32_t>(ids.size());
  symbols_.resize(ids.size());
  for (int32_t i = 0; i < n; ++i) {
    symbols_[static_cast<size_t>(i)] = {ids[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1, 0};
  }
  heap_.clear();
  for (int32_t i = 0; i < n; ++i) rank_pair(i);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  const auto push = [this](int32_t at) {
    if (rank_pair(at)) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  while (!heap_.empty()) {
    ++steps_;
    const uint64_t lowest = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    const auto at = static_cast<int32_t>(lowest & 0xFFFFFFFFu);
    Symbol& left = symbols_[static_cast<size_t>(at)];
    // An entry whose pair has changed since it was pushed is stale; a pair of the same rank is the same pair.
    if (left.rank != static_cast<int32_t>(lowest >> 32)) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    left.id = merges_.find(left.id, right.id)->result;
    right.rank = MergeTable::kNoRank;
    left.next = right.next;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = at;
    if (left.previous >= 0) push(left.previous);
    push(at);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[static_cast<size_t>(i)].next) {
    out.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace argon
