#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>

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

void BpeMerger::push_candidate(int32_t at) {
  ++steps_;
  const Symbol& left = symbols_[static_cast<size_t>(at)];
  if (left.next < 0) return;
  const int32_t right = symbols_[static_cast<size_t>(left.next)].id;
  const MergeTable::Merge* m = merges_.find(left.id, right);
  if (m == nullptr) return;
  heap_.push_back({m->rank, at, left.id, right});
}

void BpeMerger::merge_long(std::span<const int32_t> ids, std::vector<int32_t>& out) {
  const int32_t n = static_cast<int32_t>(ids.size());
  symbols_.resize(ids.size());
  for (int32_t i = 0; i < n; ++i) {
    symbols_[static_cast<size_t>(i)] = {ids[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1};
  }
  heap_.clear();
  for (int32_t i = 0; i < n; ++i) push_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), after);
  const auto push = [this](int32_t at) {
    const size_t before = heap_.size();
    push_candidate(at);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), after);
  };
  while (!heap_.empty()) {
    ++steps_;
    std::pop_heap(heap_.begin(), heap_.end(), after);
    const Candidate c = heap_.back();
    heap_.pop_back();
    // A candidate whose pair has changed since it was pushed is stale: symbols only grow, so equal ids mean
    // the same pair.
    Symbol& left = symbols_[static_cast<size_t>(c.at)];
    if (left.id != c.left || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    if (right.id != c.right) continue;
    left.id = merges_.find(c.left, c.right)->result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = c.at;
    if (left.previous >= 0) push(left.previous);
    push(c.at);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[static_cast<size_t>(i)].next) {
    out.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace argon
