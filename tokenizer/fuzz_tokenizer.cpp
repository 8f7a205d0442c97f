// Fuzzes encoding and decoding, and the making of tokenizers from broken vocabularies. The first byte of the
// input chooses.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/splitter.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace {

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_tokenizer: %s\n", what);
  std::abort();
}

// All byte tokens, merges over some letters, spaces and the bytes of marks, control and user-defined tokens.
class FuzzVocabulary {
 public:
  explicit FuzzVocabulary(const char* pre) {
    argon::TokenizerData data;
    data.pre = pre;
    storage_.reserve(1000);
    const auto add = [&](std::string text, int32_t type) {
      storage_.push_back(std::move(text));
      data.tokens.push_back(storage_.back());
      data.types.push_back(type);
    };
    const auto letter = [](unsigned byte) {
      std::string s;
      argon::append_utf8(argon::kByteToCharacter[byte], s);
      return s;
    };
    for (unsigned b = 0; b < 256; ++b) add(letter(b), 1);
    const std::pair<std::string, std::string> pairs[] = {{"a", "a"},
                                                         {"aa", "aa"},
                                                         {"a", "b"},
                                                         {"ab", "a"},
                                                         {"b", "aa"},
                                                         {letter(' '), letter(' ')},
                                                         {letter(' '), "a"},
                                                         {letter('\n'), letter('\n')},
                                                         {letter(0xCC), letter(0x81)},
                                                         {letter(0xCC), letter(0x96)},
                                                         {"<", "|"},
                                                         {"|", ">"},
                                                         {"i", "m"}};
    for (const auto& [left, right] : pairs) {
      add(left + right, 1);
      storage_.push_back(left + " " + right);
      data.merges.push_back(storage_.back());
    }
    for (const char* text : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}) add(text, 3);
    for (const char* text : {"<think>", "</think>", "\xC3\xA1!"}) add(text, 4);
    auto made = argon::Tokenizer::create(std::move(data));
    demand(made.ok(), "the fixed vocabulary was refused");
    tokenizer_ = std::move(made).value();
  }
  const argon::Tokenizer& operator*() const { return *tokenizer_; }

 private:
  std::vector<std::string> storage_;
  std::unique_ptr<argon::Tokenizer> tokenizer_;
};

void check_text(const argon::Tokenizer& tokenizer, argon::SplitRule rule, std::string_view text) {
  const std::string normal = argon::nfc(text);
  demand(argon::nfc(normal) == normal, "normal form C is not stable");
  std::string joined;
  argon::Splitter splitter(normal, rule);
  for (std::string_view piece; splitter.next(&piece); joined += piece)
    demand(!piece.empty(), "an empty piece");
  demand(joined == normal, "the pieces do not make up the text");
  demand(splitter.visited() <= 4 * normal.size() + 4, "the splitter looked too often");

  for (const auto special : {argon::ParseSpecial::kNo, argon::ParseSpecial::kYes}) {
    const auto ids = tokenizer.encode(text, special);
    demand(ids.ok(), "a text was refused");
    const auto bytes = tokenizer.decode(ids.value());
    demand(bytes.ok(), "own ids were refused");
    std::string streamed;
    argon::StreamDecoder stream(tokenizer, argon::StreamDecoder::Control::kShow);
    for (const int32_t id : ids.value()) streamed += stream.push(id);
    streamed += stream.finish();
    demand(streamed == argon::to_valid_utf8(bytes.value()), "streaming gives another text");
    bool any_control = false;
    for (const int32_t id : ids.value()) any_control = any_control || tokenizer.is_control(id);
    if (special == argon::ParseSpecial::kNo) demand(!any_control, "plain text became a control token");
    // Normalizing part by part, between control tokens, may differ from normalizing the whole where a mark
    // follows one.
    if (!any_control) demand(bytes.value() == normal, "decoding does not give the text back");
  }

  const size_t third = text.size() / 3;
  const std::vector<argon::TextSegment> segments = {{std::string(text.substr(0, third)), true},
                                                    {std::string(text.substr(third, third)), false},
                                                    {std::string(text.substr(2 * third)), true}};
  const auto ids = tokenizer.encode(segments);
  demand(ids.ok(), "segments were refused");
  const std::vector<argon::TextSegment> content = {{std::string(text), false}};
  demand(tokenizer.encode(content).value() == tokenizer.encode(text, argon::ParseSpecial::kNo).value(),
         "content is not encoded as plain text");
}

// Lines: tokens (first byte: type), then after an empty line merges.
void check_vocabulary(std::string_view text) {
  argon::TokenizerData data;
  data.pre = "qwen35";
  bool merges = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (merges) {
      data.merges.push_back(line);
    } else if (line.empty()) {
      merges = true;
    } else {
      data.types.push_back(line[0] - '0');
      data.tokens.push_back(line.substr(1));
    }
  }
  if (data.tokens.size() > 3) data.eos = static_cast<int32_t>(data.tokens.size()) - 2;
  const auto made = argon::Tokenizer::create(std::move(data));
  if (!made.ok()) {
    demand(!made.status().message().empty(), "an error without words");
    return;
  }
  const argon::Tokenizer& tokenizer = *made.value();
  std::string all;
  for (size_t id = 0; id < tokenizer.size(); ++id) tokenizer.append_bytes(static_cast<int32_t>(id), all);
  const auto ids = tokenizer.encode(all, argon::ParseSpecial::kNo);
  if (!ids.ok()) return;
  for (const int32_t id : ids.value()) demand(!tokenizer.is_control(id), "plain text became a control token");
  const auto bytes = tokenizer.decode(ids.value());
  demand(bytes.ok() && argon::nfc(bytes.value()) == argon::nfc(all), "decoding does not give the text back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const FuzzVocabulary qwen35("qwen35"), qwen2("qwen2");
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      check_vocabulary(text);
      break;
    case 1:
      check_text(*qwen2, argon::SplitRule::kQwen2, text);
      break;
    default:
      check_text(*qwen35, argon::SplitRule::kQwen35, text);
      break;
  }
  return 0;
}
