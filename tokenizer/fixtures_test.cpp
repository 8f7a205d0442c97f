// Ids, pieces and decoded texts against what the reference tokenizer gave (tests/data/tokenizer).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/harness/paths.h"
#include "tokenizer/splitter.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace argon {
namespace {

using Ids = std::vector<int32_t>;

std::vector<nlohmann::json> read_lines(const std::string& name) {
  std::ifstream file(testing::source_path("tests/data/tokenizer/" + name));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

struct Loaded {
  std::unique_ptr<testing::OwnedVocabulary> vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
};

Loaded load(const std::string& fixture, const std::string& pre) {
  Loaded l;
  l.vocabulary = testing::load_vocabulary(testing::fixture_path(fixture), pre);
  auto made = Tokenizer::create(l.vocabulary->data);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (made.ok()) l.tokenizer = std::move(made).value();
  return l;
}

TEST(TokenizerFixtures, CasesEncodeAndDecode) {
  const Loaded tiny = load("argon-tiny-tokenizer.json", "qwen35");
  ASSERT_NE(tiny.tokenizer, nullptr);
  const auto lines = read_lines("cases.jsonl");
  ASSERT_EQ(lines.size(), 218u);
  for (const auto& line : lines) {
    const auto text = line["text"].get<std::string>();
    const auto ids = tiny.tokenizer->encode(text, ParseSpecial::kYes);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(ids.value(), line["ids"].get<Ids>()) << line["text"];
    const auto bytes = tiny.tokenizer->decode(ids.value());
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(to_valid_utf8(bytes.value()), line["decoded"].get<std::string>());
    StreamDecoder stream(*tiny.tokenizer, StreamDecoder::Control::kShow);
    std::string streamed;
    for (const int32_t id : ids.value()) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.finish(), line["decoded"].get<std::string>());
  }
}

TEST(TokenizerFixtures, PiecesAndIdsUnderThreeTokenizers) {
  const Loaded tiny = load("argon-tiny-tokenizer.json", "qwen35");
  const Loaded qwen2 = load("qwen3-tokenizer.json", "qwen2");
  const Loaded qwen35 = load("qwen3-tokenizer.json", "qwen35");
  ASSERT_TRUE(tiny.tokenizer && qwen2.tokenizer && qwen35.tokenizer);
  const auto lines = read_lines("pieces.jsonl");
  ASSERT_EQ(lines.size(), 557u);
  for (const auto& line : lines) {
    const auto text = line["text"].get<std::string>();
    const std::string normal = nfc(text);
    std::vector<std::string> pieces;
    Splitter splitter(normal, SplitRule::kQwen35);
    for (std::string_view piece; splitter.next(&piece);) pieces.emplace_back(piece);
    EXPECT_EQ(pieces, line["pieces_qwen35"].get<std::vector<std::string>>()) << line["text"];
    const std::pair<const Loaded&, const char*> columns[] = {
        {tiny, "argon_tiny"}, {qwen2, "qwen3_vocab_qwen2_split"}, {qwen35, "qwen3_vocab_qwen35_split"}};
    for (const auto& [loaded, name] : columns) {
      const auto ids = loaded.tokenizer->encode(text, ParseSpecial::kYes);
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_EQ(ids.value(), line[name].get<Ids>()) << name << " " << line["text"];
    }
  }
}

TEST(TokenizerFixtures, LargeVocabularyIsSmallInMemory) {
  const Loaded qwen3 = load("qwen3-tokenizer.json", "qwen35");
  ASSERT_NE(qwen3.tokenizer, nullptr);
  EXPECT_EQ(qwen3.tokenizer->ignored_merges(), 0u);
  EXPECT_TRUE(qwen3.tokenizer->encodes_everything());
  EXPECT_LT(qwen3.tokenizer->memory_bytes(), size_t{20} << 20);
}

}  // namespace
}  // namespace argon
