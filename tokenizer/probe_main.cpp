// Test tool: reads one JSON string per line from standard input and writes {"ids": [...], "pieces": [...]}
// for each, under the tokenizer.json and splitter given. reference_test.py compares that with the reference
// tokenizer.
#include <chrono>
#include <iostream>

#include "tokenizer/splitter.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizer_probe TOKENIZER_JSON qwen35|qwen2 < texts\n";
    return 2;
  }
  const auto vocabulary = argon::testing::load_vocabulary(argv[1], argv[2]);
  argon::TokenizerData data = vocabulary->data;
  const auto start = std::chrono::steady_clock::now();
  auto made = argon::Tokenizer::create(std::move(data));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (!made.ok()) {
    std::cerr << made.status().message() << "\n";
    return 1;
  }
  const argon::Tokenizer& tokenizer = *made.value();
  std::cerr << tokenizer.size() << " tokens, ready in " << took.count() << " ms, "
            << tokenizer.memory_bytes() / 1024 << " KiB\n";
  const argon::SplitRule rule =
      std::string_view(argv[2]) == "qwen2" ? argon::SplitRule::kQwen2 : argon::SplitRule::kQwen35;
  for (std::string line; std::getline(std::cin, line);) {
    const std::string text = nlohmann::json::parse(line).get<std::string>();
    const auto ids = tokenizer.encode(text, argon::ParseSpecial::kYes);
    if (!ids.ok()) {
      std::cerr << ids.status().message() << "\n";
      return 1;
    }
    const std::string normal = argon::nfc(text);
    argon::Splitter splitter(normal, rule);
    nlohmann::json out = {{"ids", ids.value()}, {"pieces", nlohmann::json::array()}};
    for (std::string_view piece; splitter.next(&piece);) out["pieces"].push_back(piece);
    std::cout << out.dump() << "\n";
  }
  return 0;
}
