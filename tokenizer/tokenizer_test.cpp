#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "tokenizer/stream_decoder.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/utf8.h"

namespace argon {
namespace {

using Ids = std::vector<int32_t>;

// Byte tokens 0..255, then "ab", "abc", and special tokens.
struct Small {
  Small() : vocabulary(testing::byte_vocabulary()) {
    ab = vocabulary->add("ab");
    abc = vocabulary->add("abc");
    vocabulary->add_merge("a b");
    vocabulary->add_merge("ab c");
    vocabulary->add_merge("x! y");  // "x!" is no token: can never apply
    end = vocabulary->add("<|im_end|>", 3);
    end_longer = vocabulary->add("<|im_end|>>", 3);
    text_end = vocabulary->add("<|endoftext|>", 3);
    think = vocabulary->add("<think>", 4);
    accent = vocabulary->add("<e\xCC\x81>", 4);  // not in normal form C
    auto made = Tokenizer::create(vocabulary->data);
    EXPECT_TRUE(made.ok()) << made.status().message();
    tokenizer = std::move(made).value();
  }
  Ids encode(std::string_view text, ParseSpecial special = ParseSpecial::kNo) const {
    const auto ids = tokenizer->encode(text, special);
    EXPECT_TRUE(ids.ok()) << ids.status().message();
    return ids.ok() ? ids.value() : Ids{};
  }
  std::unique_ptr<testing::OwnedVocabulary> vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
  int32_t ab, abc, end, end_longer, text_end, think, accent;
};

TEST(Tokenizer, SmallVocabulary) {
  const Small s;
  EXPECT_EQ(s.encode("abcab"), (Ids{s.abc, s.ab}));
  EXPECT_EQ(s.encode("\xFF"), (Ids{0xFF}));
  EXPECT_EQ(s.encode(""), Ids{});
  EXPECT_EQ(s.tokenizer->ignored_merges(), 1u);
  EXPECT_TRUE(s.tokenizer->encodes_everything());
  EXPECT_EQ(s.tokenizer->find("abc"), s.abc);
  EXPECT_EQ(s.tokenizer->find("abcd"), std::nullopt);
  EXPECT_EQ(s.tokenizer->token_text(s.end), "<|im_end|>");
  EXPECT_EQ(s.tokenizer->token_text(-1), "");
  EXPECT_EQ(s.tokenizer->token_text(100000), "");
}

TEST(Tokenizer, ControlTokensOnlyWhenAsked) {
  const Small s;
  EXPECT_EQ(s.encode("ab<|im_end|>ab", ParseSpecial::kYes), (Ids{s.ab, s.end, s.ab}));
  EXPECT_EQ(s.encode("<|im_end|>><|im_end|>", ParseSpecial::kYes),
            (Ids{s.end_longer, s.end}));  // longest first
  for (const int32_t id : s.encode("<|im_end|><|endoftext|>")) EXPECT_FALSE(s.tokenizer->is_control(id));
  EXPECT_EQ(s.encode("ab<think>ab"), (Ids{s.ab, s.think, s.ab}));  // user-defined tokens always
  EXPECT_EQ(s.encode("<\xC3\xA9>"), (Ids{s.accent}));              // and in normal form C
  EXPECT_EQ(s.encode("<e\xCC\x81>"), (Ids{s.accent}));
}

TEST(Tokenizer, SegmentsAreOneTextWithGuardedParts) {
  const Small s;
  const auto encode = [&](const std::vector<TextSegment>& segments) {
    return s.tokenizer->encode(segments).value();
  };
  EXPECT_EQ(encode({{"a", true}, {"bc", false}}), (Ids{s.abc}));  // merged across the border
  EXPECT_EQ(encode({{"e", false}, {"\xCC\x81", true}}), s.encode("\xC3\xA9"));
  EXPECT_EQ(encode({{"<|im_", true}, {"end|>", true}}), (Ids{s.end}));
  EXPECT_EQ(encode({{"<|im_end|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}}), [&] {
    Ids ids{s.end};
    for (const int32_t id : s.encode("<|im_end|>")) ids.push_back(id);
    ids.push_back(s.end);
    return ids;
  }());
  // A token's text that only the border makes is not one.
  for (const bool first : {false, true}) {
    for (const int32_t id : encode({{"<|im_", first}, {"end|>", !first}})) EXPECT_NE(id, s.end);
  }
  EXPECT_EQ(encode({}), Ids{});
  EXPECT_EQ(encode({{"", true}, {"", false}}), Ids{});
}

// For content without control texts, cutting a rendered prompt into segments changes nothing.
TEST(Tokenizer, RandomSegmentsEqualTheWholeText) {
  const Small s;
  std::mt19937 rng(5);
  const char* parts[] = {"ab", "c", " ", "\n", "e", "\xCC\x81", "'s", "1", "<think>", "<", "\xFF", "!"};
  for (int i = 0; i < 5000; ++i) {
    std::vector<TextSegment> segments;
    std::string all;
    for (size_t n = rng() % 8; n > 0; --n) {
      TextSegment segment;
      segment.scaffold = rng() % 2 == 0;
      for (size_t k = rng() % 4; k > 0; --k) segment.text += parts[rng() % std::size(parts)];
      if (segment.scaffold && rng() % 2 == 0) segment.text += "<|im_end|>";
      all += segment.text;
      segments.push_back(segment);
    }
    ASSERT_EQ(s.tokenizer->encode(segments).value(), s.encode(all, ParseSpecial::kYes)) << all;
  }
}

TEST(Tokenizer, DecodeGivesTheBytesBack) {
  const Small s;
  std::mt19937 rng(9);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t n = rng() % 30; n > 0; --n)
      text.push_back(static_cast<char>(rng() % 3 == 0 ? rng() : 'a' + rng() % 3));
    for (const ParseSpecial special : {ParseSpecial::kNo, ParseSpecial::kYes}) {
      const auto bytes = s.tokenizer->decode(s.encode(text, special));
      ASSERT_TRUE(bytes.ok());
      ASSERT_EQ(bytes.value(), nfc(text));
    }
  }
  EXPECT_EQ(s.tokenizer->decode(Ids{s.abc, s.end, s.think}).value(), "abc<|im_end|><think>");
  for (const int32_t bad : {-1, 100000, INT32_MAX, INT32_MIN}) {
    const auto bytes = s.tokenizer->decode(Ids{bad});
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.status().code(), Code::kBadInput);
  }
}

TEST(Tokenizer, EndIds) {
  auto v = testing::byte_vocabulary();
  v->add("<|im_end|>", 3);
  v->add("<|endoftext|>", 3);
  v->data.eos = 7;
  v->data.eot = 256;
  const auto t = Tokenizer::create(v->data);
  ASSERT_TRUE(t.ok());
  const auto ids = t.value()->end_ids();
  EXPECT_EQ(Ids(ids.begin(), ids.end()), (Ids{7, 256, 257}));
  EXPECT_TRUE(t.value()->is_end(257));
  EXPECT_FALSE(t.value()->is_end(8));
}

TEST(Tokenizer, BosComesFirstIfTheModelWantsIt) {
  auto v = testing::byte_vocabulary();
  v->data.bos = v->add("<s>", 3);
  v->data.add_bos = true;
  const auto t = Tokenizer::create(v->data);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t.value()->encode("a", ParseSpecial::kNo).value(), (Ids{256, 'a'}));
  EXPECT_EQ(t.value()->encode(std::vector<TextSegment>{{"a", true}}).value(), (Ids{256, 'a'}));
}

TEST(Tokenizer, SyntheticVocabularyCanBeMadeButNotEncodeText) {
  testing::OwnedVocabulary v;
  v.data.pre = "qwen35";
  for (int i = 0; i < 1000; ++i) v.add("<t" + std::to_string(i) + ">");
  v.add_merge("a b");
  v.data.eos = v.data.bos = 0;
  const auto t = Tokenizer::create(v.data);
  ASSERT_TRUE(t.ok()) << t.status().message();
  EXPECT_FALSE(t.value()->encodes_everything());
  EXPECT_EQ(t.value()->encode("", ParseSpecial::kNo).value(), Ids{});
  const auto ids = t.value()->encode("hello", ParseSpecial::kNo);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), Code::kBadInput);
  EXPECT_NE(ids.status().message().find("0x68"), std::string::npos) << ids.status().message();
  EXPECT_EQ(t.value()->decode(Ids{12}).value(), "<t12>");
}

// A byte whose only token is a control token has none: text must not make it.
TEST(Tokenizer, ControlTokensAreNoByteTokens) {
  auto v = testing::byte_vocabulary();
  v->data.types['x'] = 3;
  const auto t = Tokenizer::create(v->data);
  ASSERT_TRUE(t.ok());
  EXPECT_FALSE(t.value()->encode("x", ParseSpecial::kNo).ok());
  EXPECT_EQ(t.value()->encode("x", ParseSpecial::kYes).value(), (Ids{'x'}));
}

TEST(Tokenizer, TokensOutsideTheByteAlphabetDecodeAsTheyAre) {
  auto v = testing::byte_vocabulary();
  const int32_t id = v->add("\xE4\xB8\xAD\xC4\xA0");
  const auto t = Tokenizer::create(v->data);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t.value()->decode(Ids{id, 0x20}).value(), "\xE4\xB8\xAD\xC4\xA0 ");
}

TEST(Tokenizer, FaultyVocabulariesAreRefusedByName) {
  const auto refuse = [](Code code, const std::string& word, auto change) {
    auto v = testing::byte_vocabulary();
    v->add("ab");
    v->add_merge("a b");
    change(*v);
    const auto t = Tokenizer::create(v->data);
    ASSERT_FALSE(t.ok()) << word;
    EXPECT_EQ(t.status().code(), code) << word;
    EXPECT_NE(t.status().message().find(word), std::string::npos) << t.status().message();
    EXPECT_EQ(t.status().message().find('\n'), std::string::npos);
  };
  using V = testing::OwnedVocabulary;
  refuse(Code::kUnsupported, "llama-bpe", [](V& v) { v.data.pre = "llama-bpe"; });
  refuse(Code::kUnsupported, "\"\"", [](V& v) { v.data.pre = ""; });
  refuse(Code::kBadInput, "tokens is empty", [](V& v) { v.data.tokens.clear(); });
  refuse(Code::kBadInput, "token_type", [](V& v) { v.data.types.pop_back(); });
  refuse(Code::kBadInput, "token_type of token 3", [](V& v) { v.data.types[3] = 0; });
  refuse(Code::kBadInput, "token_type of token 3", [](V& v) { v.data.types[3] = 7; });
  refuse(Code::kBadInput, "256 and 257", [](V& v) { v.add("ab"); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge("a  b"); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge("ab"); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge(" b"); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge("a "); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge(""); });
  refuse(Code::kBadInput, "merge 1", [](V& v) { v.add_merge("\n"); });
  refuse(Code::kBadInput, "no token", [](V& v) { v.add_merge("a c"); });
  refuse(Code::kBadInput, "as merge 0", [](V& v) { v.add_merge("a b"); });
  refuse(Code::kBadInput, "control token 256", [](V& v) { v.data.types[256] = 3; });
  refuse(Code::kBadInput, "control token 257", [](V& v) { v.add("", 3); });
  refuse(Code::kBadInput, "user-defined token 257", [](V& v) { v.add(std::string(2000, 'x'), 4); });
  refuse(Code::kBadInput, "eos_token_id", [](V& v) { v.data.eos = 257; });
  refuse(Code::kBadInput, "eot_token_id", [](V& v) { v.data.eot = -1; });
  refuse(Code::kBadInput, "bos_token_id", [](V& v) { v.data.bos = INT32_MAX; });
  refuse(Code::kBadInput, "padding_token_id", [](V& v) { v.data.pad = 1000; });
  refuse(Code::kBadInput, "add_bos_token", [](V& v) { v.data.add_bos = true; });
}

TEST(Tokenizer, TooLongTextsAreRefused) {
  const Small s;
  const std::string text(Tokenizer::kMaxTextBytes + 1, 'a');
  EXPECT_EQ(s.tokenizer->encode(text, ParseSpecial::kNo).status().code(), Code::kBadInput);
  EXPECT_EQ(
      s.tokenizer->encode(std::vector<TextSegment>{{"a", true}, {text.substr(1), false}}).status().code(),
      Code::kBadInput);
}

// A megabyte of one thing: ends at all (constant stack), and ids decode to the text. The growth of the work
// is measured by the tests of the parts.
TEST(Tokenizer, MegabytesOfOneCharacter) {
  const Small s;
  for (const std::string unit : {"a", "ab", " ", "\n", "7", "!", "\xCC\x81", "\xCC\x81\xCC\x96", "\x01",
                                 "\xF0\x9F\x98\x80", "\xFF", "<|im_end|>", "<|im_", "<think>"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    const Ids ids = s.encode(text);
    EXPECT_EQ(s.tokenizer->decode(ids).value(), nfc(text));
  }
}

TEST(StreamDecoder, CharactersComeWhole) {
  const Small s;
  StreamDecoder d(*s.tokenizer);
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0x9F), "");
  EXPECT_EQ(d.push(0x98), "");
  EXPECT_EQ(d.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(d.push(s.abc), "abc");
  EXPECT_EQ(d.push(0xC3), "");
  EXPECT_EQ(d.push('a'), std::string(kReplacementCharacter) + "a");
  EXPECT_EQ(d.push(s.end), "");
  EXPECT_EQ(d.push(-1), kReplacementCharacter);
  EXPECT_EQ(d.push(0xE2), "");
  EXPECT_EQ(d.finish(), kReplacementCharacter);
  EXPECT_EQ(d.finish(), "");
  StreamDecoder shown(*s.tokenizer, StreamDecoder::Control::kShow);
  EXPECT_EQ(shown.push(s.end), "<|im_end|>");
}

TEST(StreamDecoder, AnyBytesGiveTheLossyText) {
  const Small s;
  std::mt19937 rng(11);
  const int32_t bytes[] = {'a', 0x80, 0x9F, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xA0, 0x90};
  for (int i = 0; i < 20000; ++i) {
    Ids ids(rng() % 12);
    for (int32_t& id : ids) id = bytes[rng() % std::size(bytes)];
    StreamDecoder d(*s.tokenizer);
    std::string text;
    for (const int32_t id : ids) text += d.push(id);
    text += d.finish();
    ASSERT_EQ(text, to_valid_utf8(s.tokenizer->decode(ids).value()));
  }
}

}  // namespace
}  // namespace argon
