// Vocabularies for the tokenizer's tests: a Hugging Face tokenizer.json, and small ones made in place.
#pragma once

#include <deque>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace argon::testing {

// Texts live in a deque, whose elements never move; keep it as long as the tokenizer.
struct OwnedVocabulary {
  std::deque<std::string> storage;
  TokenizerData data;

  std::string_view keep(std::string text) { return storage.emplace_back(std::move(text)); }
  int32_t add(std::string text, int32_t type = 1) {
    data.tokens.push_back(keep(std::move(text)));
    data.types.push_back(type);
    return static_cast<int32_t>(data.tokens.size() - 1);
  }
  void add_merge(std::string text) { data.merges.push_back(keep(std::move(text))); }
};

inline std::string byte_character(unsigned byte) {
  std::string out;
  append_utf8(kByteToCharacter[byte], out);
  return out;
}

// The 256 byte tokens (ids 0 to 255 in byte order).
inline std::unique_ptr<OwnedVocabulary> byte_vocabulary(std::string pre = "qwen35") {
  auto v = std::make_unique<OwnedVocabulary>();
  v->data.pre = std::move(pre);
  for (unsigned b = 0; b < 256; ++b) v->add(byte_character(b));
  return v;
}

// tokenizer.json as a GGUF converter would write it: `normalized: false` added tokens are control tokens, the
// others user-defined. With it, ids equal the reference's with special tokens recognized.
inline std::unique_ptr<OwnedVocabulary> load_vocabulary(const std::string& path, std::string pre) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  auto v = std::make_unique<OwnedVocabulary>();
  v->data.pre = std::move(pre);
  const auto place = [&](size_t id, std::string text, int32_t type) {
    if (v->data.tokens.size() <= id) {
      v->data.tokens.resize(id + 1);
      v->data.types.resize(id + 1, 1);
    }
    v->data.tokens[id] = v->keep(std::move(text));
    v->data.types[id] = type;
  };
  for (const auto& [text, id] : json["model"]["vocab"].items()) place(id.get<size_t>(), text, 1);
  for (const auto& token : json["added_tokens"]) {
    place(token["id"].get<size_t>(), token["content"].get<std::string>(),
          token["normalized"].get<bool>() ? 4 : 3);
  }
  for (const auto& merge : json["model"]["merges"]) {
    v->add_merge(merge.is_string() ? merge.get<std::string>()
                                   : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return v;
}

}  // namespace argon::testing
