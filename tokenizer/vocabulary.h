// Token texts and their ids, both ways. Texts stay where they are (the model file's mapping); the index is
// one table of 8 bytes per slot, about half full: 4 MB for 248,320 tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace argon {

class Vocabulary {
 public:
  // Takes the texts in id order. kBadInput, naming both ids, if two are equal.
  Status build(std::vector<std::string_view> texts);

  size_t size() const { return texts_.size(); }
  std::string_view text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }  // 0 <= id < size()
  // The id of a text, or -1.
  int32_t find(std::string_view text) const;
  size_t memory_bytes() const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1: free
  };
  std::vector<std::string_view> texts_;
  std::vector<Slot> slots_;  // a power of two of them, linear probing
};

}  // namespace argon
