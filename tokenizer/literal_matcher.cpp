#include "tokenizer/literal_matcher.h"

#include <algorithm>
#include <utility>

namespace argon {

void LiteralMatcher::build() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.text == b.text; }),
                 entries_.end());
  first_.fill(0);
  for (const Entry& e : entries_) ++first_[static_cast<uint8_t>(e.text[0]) + size_t{1}];
  for (size_t b = 1; b < first_.size(); ++b) first_[b] += first_[b - 1];
}

bool LiteralMatcher::find(std::string_view text, size_t from, Match* match) const {
  if (entries_.empty()) return false;
  for (size_t at = from; at < text.size(); ++at) {
    const auto b = static_cast<uint8_t>(text[at]);
    if (first_[b] != first_[b + size_t{1}] && match_at(text, at, match)) return true;
  }
  return false;
}

// Narrows the range of entries that agree with the text, byte by byte. An entry that ends sorts before those
// that go on.
bool LiteralMatcher::match_at(std::string_view text, size_t at, Match* match) const {
  const auto b = static_cast<uint8_t>(text[at]);
  auto low = entries_.begin() + first_[b];
  auto high = entries_.begin() + first_[b + size_t{1}];
  bool found = false;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->text.size() == depth) {
      *match = {at, depth, low->id};
      found = true;
      if (++low == high) break;
    }
    if (at + depth == text.size()) break;
    const auto want = static_cast<uint8_t>(text[at + depth]);
    const auto byte = [depth](const Entry& e) { return static_cast<uint8_t>(e.text[depth]); };
    low = std::partition_point(low, high, [&](const Entry& e) { return byte(e) < want; });
    high = std::partition_point(low, high, [&](const Entry& e) { return byte(e) <= want; });
  }
  return found;
}

}  // namespace argon
