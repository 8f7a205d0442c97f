#include "tokenizer/vocabulary.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace argon {
namespace {

uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ (x >> 29);
}

uint32_t hash_text(std::string_view text) {
  uint64_t h = mix(text.size() + 1);
  const char* p = text.data();
  size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h ^ word);
  }
  uint64_t tail = 0;
  if (left != 0) std::memcpy(&tail, p, left);
  return static_cast<uint32_t>(mix(h ^ tail));
}

}  // namespace

Status Vocabulary::build(std::vector<std::string_view> texts) {
  if (texts.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 4) {
    return bad_input("the vocabulary has " + std::to_string(texts.size()) +
                     " tokens; ids are 32-bit numbers");
  }
  texts_ = std::move(texts);
  slots_.assign(std::bit_ceil(texts_.size() * 2 + 2), Slot{0, -1});
  const size_t mask = slots_.size() - 1;
  for (size_t id = 0; id < texts_.size(); ++id) {
    const uint32_t hash = hash_text(texts_[id]);
    size_t at = hash & mask;
    for (; slots_[at].id >= 0; at = (at + 1) & mask) {
      if (slots_[at].hash == hash && texts_[static_cast<size_t>(slots_[at].id)] == texts_[id]) {
        return bad_input(
            "tokens " + std::to_string(slots_[at].id) + " and " + std::to_string(id) +
            " have the same text; every token of a vocabulary needs its own: convert the model again");
      }
    }
    slots_[at] = {hash, static_cast<int32_t>(id)};
  }
  return {};
}

int32_t Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const uint32_t hash = hash_text(text);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && texts_[static_cast<size_t>(slots_[at].id)] == text) return slots_[at].id;
  }
  return -1;
}

size_t Vocabulary::memory_bytes() const {
  return texts_.capacity() * sizeof(texts_[0]) + slots_.capacity() * sizeof(Slot);
}

}  // namespace argon
