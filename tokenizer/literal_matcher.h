// Finds fixed texts (control and user-defined tokens) in a text: leftmost first, the longest of those that
// begin there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace argon {

class LiteralMatcher {
 public:
  struct Match {
    size_t at;
    size_t length;
    int32_t id;
  };

  // Adds a non-empty text; the first of equal ones stays. build() comes after the last.
  void add(std::string text, int32_t id) { entries_.push_back({std::move(text), id}); }
  void build();

  bool empty() const { return entries_.empty(); }
  // The first match at or after `from`; false if there is none. Takes time in the text's length times the
  // longest literal's in the worst case.
  bool find(std::string_view text, size_t from, Match* match) const;

 private:
  struct Entry {
    std::string text;
    int32_t id;
  };
  bool match_at(std::string_view text, size_t at, Match* match) const;

  std::vector<Entry> entries_;         // sorted by text after build()
  std::array<uint32_t, 257> first_{};  // entries beginning with byte b: [first_[b], first_[b + 1])
};

}  // namespace argon
