// Text to token ids and back: the byte-level BPE tokenizers of the Qwen family.
// encode: control tokens are found in the raw text where they are allowed; what lies between is brought to
// normal form C; user-defined tokens are found in that; what lies between those is cut by the Splitter,
// written as byte tokens and merged. Ids equal those of the reference (Hugging Face `tokenizers`) for the
// same vocabulary.
// Control tokens (type 3: <|im_start|>, ...) carry the structure of a conversation: text encoded with
// ParseSpecial::kNo, and segments that are not scaffold, never yield one, whatever they hold; create() sees
// to it that merging cannot either. User-defined tokens (type 4: <think>, ...) have no such power and are
// found everywhere, as in the reference.
// Text that is not UTF-8 is accepted: a byte of no well-formed sequence counts as an "other" character and
// keeps its value, so decode(encode(text)) is nfc(text) byte for byte (if no user-defined token is itself out
// of normal form C).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/bpe.h"
#include "tokenizer/literal_matcher.h"
#include "tokenizer/splitter.h"
#include "tokenizer/vocabulary.h"

namespace argon {

// What a model file says (GGUF `tokenizer.ggml.*`). The texts must outlive the tokenizer.
struct TokenizerData {
  std::vector<std::string_view> tokens;
  std::vector<int32_t> types;            // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string_view> merges;  // "left right", by rank
  std::string pre;                       // the splitter: "qwen35" or "qwen2"
  std::optional<int32_t> eos, eot, bos, pad;
  bool add_bos = false;
};

enum class ParseSpecial : uint8_t { kNo, kYes };

// A part of a rendered prompt.
struct TextSegment {
  std::string text;
  bool scaffold = false;  // the template's own words: control tokens are recognized within
  bool operator==(const TextSegment&) const = default;
};

class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

  // kBadInput: types do not match the tokens, two equal tokens, a merge that is not two texts and a space, is
  // given twice, has two tokens but no token as result, or a control token as result; an id out of range;
  // add_bos without bos. kUnsupported: `pre` is not known. A merge one of whose sides is no token can never
  // apply: it is left out and counted.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerData data);

  // Ids of `text`, after bos if the model asks for it. kBadInput if the text is longer than kMaxTextBytes or
  // holds a byte that the vocabulary has no token for (synthetic vocabularies).
  Result<std::vector<int32_t>> encode(std::string_view text, ParseSpecial parse_special) const;
  // Ids of the segments' concatenation. Text between two recognized control tokens is one string whatever
  // segments it comes from, so the ids are those of encode(concatenation, kYes) unless content holds a
  // control token's text.
  Result<std::vector<int32_t>> encode(std::span<const TextSegment> segments) const;

  // The bytes of the tokens; control tokens give their text. kBadInput for an id out of range.
  Result<std::string> decode(std::span<const int32_t> ids) const;
  // Appends one token's bytes, which may be a part of a UTF-8 sequence. An id out of range gives U+FFFD.
  void append_bytes(int32_t id, std::string& out) const;

  size_t size() const { return vocabulary_.size(); }
  bool in_range(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < size(); }
  bool is_control(int32_t id) const { return in_range(id) && types_[static_cast<size_t>(id)] == kControl; }
  // The token as the vocabulary writes it (byte alphabet); empty for an id out of range.
  std::string_view token_text(int32_t id) const { return in_range(id) ? vocabulary_.text(id) : ""; }
  std::optional<int32_t> find(std::string_view token_text) const;

  // The tokens that end a generation: eos, eot, <|im_end|> and <|endoftext|>, as far as there are, each once.
  std::span<const int32_t> end_ids() const { return end_ids_; }
  bool is_end(int32_t id) const;
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> pad() const { return pad_; }
  bool add_bos() const { return add_bos_; }
  // True if every byte has a token, that is, if every text can be encoded.
  bool encodes_everything() const { return missing_bytes_ == 0; }
  size_t ignored_merges() const { return ignored_merges_; }  // left out by create()
  size_t memory_bytes() const;                               // on the heap

 private:
  static constexpr uint8_t kControl = 3, kUserDefined = 4, kUnused = 5;
  struct Scratch;
  Tokenizer() = default;
  Status set_types(const std::vector<int32_t>& types);
  Status set_special_ids(const TokenizerData& data);
  Status set_literals();
  Status set_merges(const std::vector<std::string_view>& merges);
  Status encode_scaffold(std::string_view all, size_t scaffold_end, size_t& done, size_t from,
                         Scratch& s) const;
  Status encode_raw(std::string_view text, Scratch& s) const;
  Status encode_normalized(std::string_view text, Scratch& s) const;
  Status encode_pieces(std::string_view text, Scratch& s) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::vector<uint8_t> types_;
  std::array<int32_t, 256> byte_ids_{};  // -1: no token
  LiteralMatcher control_, user_defined_;
  SplitRule rule_ = SplitRule::kQwen35;
  std::vector<int32_t> end_ids_;
  std::optional<int32_t> bos_, pad_;
  bool add_bos_ = false;
  size_t missing_bytes_ = 0, ignored_merges_ = 0;
};

}  // namespace argon
