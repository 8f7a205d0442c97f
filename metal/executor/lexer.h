// Tokens of preprocessed kernel text. Line markers (# 12 "file") are consumed and give each token its file
// and line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace argon::metal {

enum class TokenKind { kWord, kNumber, kText, kPunct, kEnd };

struct Token {
  TokenKind kind;
  std::string_view text;
  size_t begin;  // byte offset in the input; the end is begin + text.size()
  int file;      // index into Lexed::files
  int line;

  bool is(std::string_view s) const { return text == s && kind != TokenKind::kText; }
  bool word() const { return kind == TokenKind::kWord; }
};

struct Lexed {
  std::vector<Token> tokens;  // the last one is kEnd
  std::vector<std::string> files;
};

// `input` must outlive the result. Punctuation comes one character at a time, except "::" and "->".
Lexed lex(const std::string& input, const std::string& name);

}  // namespace argon::metal
