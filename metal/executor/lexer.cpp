#include "metal/executor/lexer.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace argon::metal {
namespace {

bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Lexed lex(const std::string& in, const std::string& name) {
  Lexed out;
  out.files.push_back(name);
  int file = 0, line = 1;
  size_t i = 0;
  bool line_start = true;
  auto add = [&](TokenKind kind, size_t begin, size_t end) {
    out.tokens.push_back({kind, std::string_view(in).substr(begin, end - begin), begin, file, line});
  };
  while (i < in.size()) {
    const char c = in[i];
    if (c == '\n') {
      ++line, ++i;
      line_start = true;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (c == '#' && line_start) {
      const size_t end = std::min(in.find('\n', i), in.size());
      char* after = nullptr;
      const long number = std::strtol(in.c_str() + i + 1, &after, 10);
      const size_t quote = in.find('"', i);
      if (after != in.c_str() + i + 1 && number >= 0 && quote < end) {  // a marker; pragmas are stepped over
        const std::string path = in.substr(quote + 1, in.find('"', quote + 1) - quote - 1);
        const auto known = std::find(out.files.begin(), out.files.end(), path);
        file = static_cast<int>(known - out.files.begin());
        if (known == out.files.end()) out.files.push_back(path);
        line = static_cast<int>(number) - 1;  // the newline that follows makes it `number`
      }
      i = end;
    } else if (c == '"' || c == '\'') {
      size_t e = i + 1;
      while (e < in.size() && in[e] != c && in[e] != '\n') e += in[e] == '\\' ? 2 : 1;
      e = std::min(e + 1, in.size());
      add(TokenKind::kText, i, e);
      i = e;
      line_start = false;
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               (c == '.' && i + 1 < in.size() && std::isdigit(static_cast<unsigned char>(in[i + 1])))) {
      size_t e = i + 1;
      while (e < in.size() &&
             (word_char(in[e]) || in[e] == '.' ||
              ((in[e] == '+' || in[e] == '-') && std::string("eEpP").find(in[e - 1]) != std::string::npos &&
               (in.compare(i, 2, "0x") != 0 || in[e - 1] == 'p' || in[e - 1] == 'P')))) {
        ++e;
      }
      add(TokenKind::kNumber, i, e);
      i = e;
      line_start = false;
    } else if (word_char(c)) {
      size_t e = i + 1;
      while (e < in.size() && word_char(in[e])) ++e;
      add(TokenKind::kWord, i, e);
      i = e;
      line_start = false;
    } else {
      const std::string_view two = std::string_view(in).substr(i, 2);
      const size_t n = two == "::" || two == "->" ? 2 : 1;
      add(TokenKind::kPunct, i, i + n);
      i += n;
      line_start = false;
    }
  }
  add(TokenKind::kEnd, in.size(), in.size());
  return out;
}

}  // namespace argon::metal
