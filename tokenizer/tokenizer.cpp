#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace argon {
namespace {

// Longer special tokens would make finding them slow, and no model has them.
constexpr size_t kMaxLiteralBytes = 1024;

// A token's text for an error message: short, one line, printable.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : to_valid_utf8(text.substr(0, 60))) {
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c);
  }
  return out + (text.size() > 60 ? "...\"" : "\"");
}

}  // namespace

struct Tokenizer::Scratch {
  explicit Scratch(const MergeTable& merges) : merger(merges) {}
  BpeMerger merger;
  std::vector<int32_t> bytes;  // the piece as byte tokens
  std::vector<int32_t> ids;    // the answer
};

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerData data) {
  std::unique_ptr<Tokenizer> t(new Tokenizer);
  if (data.pre == "qwen35") {
    t->rule_ = SplitRule::kQwen35;
  } else if (data.pre == "qwen2") {
    t->rule_ = SplitRule::kQwen2;
  } else {
    return unsupported("tokenizer.ggml.pre is " + quoted(data.pre) +
                       "; this engine splits text as \"qwen35\" or \"qwen2\" only");
  }
  if (data.tokens.empty()) return bad_input("tokenizer.ggml.tokens is empty: the file has no vocabulary");
  if (data.types.size() != data.tokens.size()) {
    return bad_input("tokenizer.ggml.token_type has " + std::to_string(data.types.size()) + " entries for " +
                     std::to_string(data.tokens.size()) + " tokens; it needs one per token");
  }
  ARGON_RETURN_IF_ERROR(t->vocabulary_.build(std::move(data.tokens)));
  ARGON_RETURN_IF_ERROR(t->set_types(data.types));
  ARGON_RETURN_IF_ERROR(t->set_special_ids(data));
  ARGON_RETURN_IF_ERROR(t->set_literals());
  ARGON_RETURN_IF_ERROR(t->set_merges(data.merges));
  return t;
}

Status Tokenizer::set_types(const std::vector<int32_t>& types) {
  types_.resize(types.size());
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < 1 || types[id] > 6) {
      return bad_input("tokenizer.ggml.token_type of token " + std::to_string(id) + " is " +
                       std::to_string(types[id]) + "; known types are 1 to 6");
    }
    types_[id] = static_cast<uint8_t>(types[id]);
  }
  for (unsigned b = 0; b < 256; ++b) {
    std::string character;
    append_utf8(kByteToCharacter[b], character);
    int32_t id = vocabulary_.find(character);
    if (id >= 0 &&
        (types_[static_cast<size_t>(id)] == kControl || types_[static_cast<size_t>(id)] == kUnused))
      id = -1;
    byte_ids_[b] = id;
    if (id < 0) ++missing_bytes_;
  }
  return {};
}

Status Tokenizer::set_special_ids(const TokenizerData& data) {
  const std::pair<const char*, std::optional<int32_t>> named[] = {{"eos_token_id", data.eos},
                                                                  {"eot_token_id", data.eot},
                                                                  {"bos_token_id", data.bos},
                                                                  {"padding_token_id", data.pad}};
  for (const auto& [name, id] : named) {
    if (id && !in_range(*id)) {
      return bad_input("tokenizer.ggml." + std::string(name) + " is " + std::to_string(*id) +
                       "; the vocabulary has ids 0 to " + std::to_string(size() - 1));
    }
  }
  if (data.add_bos && !data.bos) {
    return bad_input("tokenizer.ggml.add_bos_token is set, but there is no tokenizer.ggml.bos_token_id");
  }
  bos_ = data.bos;
  pad_ = data.pad;
  add_bos_ = data.add_bos;
  for (const std::optional<int32_t> id : {data.eos, data.eot, find("<|im_end|>"), find("<|endoftext|>")}) {
    if (id && !is_end(*id)) end_ids_.push_back(*id);
  }
  return {};
}

Status Tokenizer::set_literals() {
  for (size_t id = 0; id < size(); ++id) {
    if (types_[id] != kControl && types_[id] != kUserDefined) continue;
    const std::string_view text = vocabulary_.text(static_cast<int32_t>(id));
    const std::string name = types_[id] == kControl ? "control" : "user-defined";
    if (text.empty() || text.size() > kMaxLiteralBytes) {
      return bad_input("the text of " + name + " token " + std::to_string(id) + " has " +
                       std::to_string(text.size()) + " bytes; 1 to " + std::to_string(kMaxLiteralBytes) +
                       " can be recognized in a text");
    }
    if (types_[id] == kControl) {
      control_.add(std::string(text), static_cast<int32_t>(id));
    } else {
      user_defined_.add(nfc(text), static_cast<int32_t>(id));
    }
  }
  control_.build();
  user_defined_.build();
  return {};
}

Status Tokenizer::set_merges(const std::vector<std::string_view>& merges) {
  if (merges.size() > static_cast<size_t>(MergeTable::kNoRank) / 4) {
    return bad_input("tokenizer.ggml.merges has " + std::to_string(merges.size()) +
                     " entries; ranks are 32-bit numbers");
  }
  merges_.reserve(merges.size());
  std::string joined;
  // Vocabularies list the merges' results in the merges' order, so the next token is the best guess; looking
  // there first saves a third of the lookups, whose cache misses are what start-up waits for.
  int32_t guess = 0;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view text = merges[rank];
    const auto fault = [&](const std::string& what) {
      return bad_input("merge " + std::to_string(rank) + " of tokenizer.ggml.merges, " + quoted(text) + ", " +
                       what);
    };
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string_view::npos) {
      return fault("is not two token texts with one space between");
    }
    const std::string_view left_text = text.substr(0, space), right_text = text.substr(space + 1);
    const int32_t left = vocabulary_.find(left_text), right = vocabulary_.find(right_text);
    if (left < 0 || right < 0) {
      ++ignored_merges_;
      continue;
    }
    joined.assign(left_text).append(right_text);
    const int32_t result = token_text(guess) == joined ? guess : vocabulary_.find(joined);
    if (result < 0)
      return fault("makes a text that is no token; vocabulary and merges do not belong together");
    if (types_[static_cast<size_t>(result)] == kControl) {
      return fault("makes the control token " + std::to_string(result) +
                   "; plain text must never become one");
    }
    guess = result + 1;
    const int32_t earlier = merges_.insert({left, right, static_cast<int32_t>(rank), result});
    if (earlier >= 0) return fault("was given before, as merge " + std::to_string(earlier));
  }
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, ParseSpecial parse_special) const {
  if (text.size() > kMaxTextBytes) {
    return bad_input("the text has " + std::to_string(text.size()) + " bytes; at most " +
                     std::to_string(kMaxTextBytes) + " can be encoded at once");
  }
  Scratch s(merges_);
  if (add_bos_) s.ids.push_back(*bos_);
  size_t done = 0;
  if (parse_special == ParseSpecial::kYes)
    ARGON_RETURN_IF_ERROR(encode_scaffold(text, text.size(), done, 0, s));
  ARGON_RETURN_IF_ERROR(encode_raw(text.substr(done), s));
  return std::move(s.ids);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextSegment> segments) const {
  size_t bytes = 0;
  for (const TextSegment& segment : segments) {
    if (segment.text.size() > kMaxTextBytes - bytes) {
      return bad_input("the prompt has more than " + std::to_string(kMaxTextBytes) +
                       " bytes; no more can be encoded at once");
    }
    bytes += segment.text.size();
  }
  std::string all;
  all.reserve(bytes);
  for (const TextSegment& segment : segments) all += segment.text;

  Scratch s(merges_);
  if (add_bos_) s.ids.push_back(*bos_);
  size_t done = 0, begin = 0;
  for (size_t i = 0; i < segments.size();) {
    size_t end = begin;
    const bool scaffold = segments[i].scaffold;
    // Scaffold segments that touch are one: a control token may lie across their border.
    for (; i < segments.size() && segments[i].scaffold == scaffold; ++i) end += segments[i].text.size();
    if (scaffold) ARGON_RETURN_IF_ERROR(encode_scaffold(all, end, done, begin, s));
    begin = end;
  }
  ARGON_RETURN_IF_ERROR(encode_raw(std::string_view(all).substr(done), s));
  return std::move(s.ids);
}

// Finds the control tokens in all[from, scaffold_end) and encodes all[done, ...) up to and with the last of
// them; `done` moves on.
Status Tokenizer::encode_scaffold(std::string_view all, size_t scaffold_end, size_t& done, size_t from,
                                  Scratch& s) const {
  const std::string_view visible = all.substr(0, scaffold_end);
  LiteralMatcher::Match match;
  while (control_.find(visible, from, &match)) {
    ARGON_RETURN_IF_ERROR(encode_raw(all.substr(done, match.at - done), s));
    s.ids.push_back(match.id);
    done = from = match.at + match.length;
  }
  return {};
}

Status Tokenizer::encode_raw(std::string_view text, Scratch& s) const {
  if (is_trivially_nfc(text)) return encode_normalized(text, s);
  return encode_normalized(nfc(text), s);
}

Status Tokenizer::encode_normalized(std::string_view text, Scratch& s) const {
  size_t done = 0;
  LiteralMatcher::Match match;
  while (user_defined_.find(text, done, &match)) {
    ARGON_RETURN_IF_ERROR(encode_pieces(text.substr(done, match.at - done), s));
    s.ids.push_back(match.id);
    done = match.at + match.length;
  }
  return encode_pieces(text.substr(done), s);
}

Status Tokenizer::encode_pieces(std::string_view text, Scratch& s) const {
  Splitter splitter(text, rule_);
  std::string_view piece;
  while (splitter.next(&piece)) {
    s.bytes.clear();
    for (const char c : piece) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
      if (id < 0) {
        char hex[8];
        std::snprintf(hex, sizeof(hex), "0x%02X", static_cast<unsigned>(static_cast<uint8_t>(c)));
        return bad_input(
            std::string("the text holds byte ") + hex + ", for which the model's vocabulary has no token (" +
            std::to_string(256 - missing_bytes_) +
            " of 256 bytes have one); give token ids instead, or use a model with a whole vocabulary");
      }
      s.bytes.push_back(id);
    }
    s.merger.merge(s.bytes, s.ids);
  }
  return {};
}

void Tokenizer::append_bytes(int32_t id, std::string& out) const {
  if (!in_range(id)) {
    out += kReplacementCharacter;
    return;
  }
  const std::string_view text = vocabulary_.text(id);
  const uint8_t type = types_[static_cast<size_t>(id)];
  if (type == kControl || type == kUserDefined) {
    out += text;
    return;
  }
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const int byte = c.value < kCharacterToByte.size() ? kCharacterToByte[c.value] : -1;
    if (byte < 0) {  // not written in the byte alphabet: the text stands for itself, as in the reference
      out.resize(before);
      out += text;
      return;
    }
    out.push_back(static_cast<char>(byte));
    at += c.length;
  }
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    if (!in_range(id)) {
      return bad_input("token id " + std::to_string(id) + " is out of range; the vocabulary has ids 0 to " +
                       std::to_string(size() - 1));
    }
    append_bytes(id, out);
  }
  return out;
}

std::optional<int32_t> Tokenizer::find(std::string_view token_text) const {
  const int32_t id = vocabulary_.find(token_text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

bool Tokenizer::is_end(int32_t id) const {
  return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
}

size_t Tokenizer::memory_bytes() const {
  return sizeof(*this) + vocabulary_.memory_bytes() + merges_.memory_bytes() + types_.capacity();
}

}  // namespace argon
