// A byte-level BPE vocabulary of any size, made by rule.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "model/synth.h"

namespace argon {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

struct Special {
  const char* text;
  int32_t type;
};
constexpr Special kSpecials[] = {{"<|endoftext|>", kControl},
                                 {"<|im_start|>", kControl},
                                 {"<|im_end|>", kControl},
                                 {"<think>", kUserDefined},
                                 {"</think>", kUserDefined}};
constexpr int64_t kSpecialCount = std::size(kSpecials);

std::string utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// How byte-level BPE spells a byte: printable Latin-1 bytes as themselves, the others as U+0100 and up in
// order.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> out;
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
    out[b] = utf8(printable ? b : next++);
  }
  return out;
}

constexpr const char* kChatTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

Status add_synthetic_tokenizer(int64_t V, GgufHeader* header) {
  if (V < 256 + kSpecialCount) {
    return bad_input(fmt::format(
        "a byte-level vocabulary has {} tokens, wanted at least {} (256 bytes and {} special tokens)", V,
        256 + kSpecialCount, kSpecialCount));
  }
  const std::array<std::string, 256> bytes = byte_alphabet();
  std::vector<std::string> tokens(bytes.begin(), bytes.end());
  std::vector<std::string> merges;
  const auto wanted = static_cast<size_t>(V - kSpecialCount);
  tokens.reserve(static_cast<size_t>(V));
  merges.reserve(wanted - tokens.size());
  // Every token of two or more symbols is an earlier token and one letter more, so each string is made once
  // and both halves of its merge exist. The first symbols are the space and the letters, roughly by frequency
  // in English.
  const std::string letters = "etaoinshrdlcumwfgypbvkjxqzETAOINSHRDLCUMWFGYPBVKJXQZ";
  std::vector<std::string> prefixes = {bytes[' ']};
  for (char c : letters) prefixes.push_back(bytes[static_cast<unsigned char>(c)]);
  for (size_t p = 0; tokens.size() < wanted; ++p) {
    for (size_t i = 0; i < letters.size() && tokens.size() < wanted; ++i) {
      const std::string letter(1, letters[i]);
      merges.push_back(prefixes[p] + " " + letter);
      tokens.push_back(prefixes[p] + letter);
      prefixes.push_back(tokens.back());
    }
  }
  std::vector<int32_t> types(tokens.size(), kNormal);
  const auto first_special = static_cast<uint32_t>(tokens.size());
  for (const Special& s : kSpecials) {
    tokens.emplace_back(s.text);
    types.push_back(s.type);
  }
  header->add_string("tokenizer.ggml.model", "gpt2");
  header->add_string("tokenizer.ggml.pre", "qwen35");
  header->add_strings("tokenizer.ggml.tokens", tokens);
  header->add_i32s("tokenizer.ggml.token_type", types);
  header->add_strings("tokenizer.ggml.merges", merges);
  header->add_u32("tokenizer.ggml.bos_token_id", first_special);
  header->add_u32("tokenizer.ggml.eos_token_id", first_special + 2);
  header->add_u32("tokenizer.ggml.padding_token_id", first_special);
  header->add_bool("tokenizer.ggml.add_bos_token", false);
  header->add_string("tokenizer.chat_template", kChatTemplate);
  return {};
}

}  // namespace argon
