#include "gguf/text.h"

#include <fmt/format.h>

namespace argon {

std::string quote(std::string_view text) {
  constexpr size_t kMax = 80;
  std::string out = "'";
  for (char c : text.substr(0, kMax)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u >= 0x7f || c == '\'' || c == '\\') {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  if (text.size() > kMax) out += "...";
  return out + "'";
}

std::string printable_path(std::string_view path) {
  constexpr size_t kMax = 400;
  std::string out;
  for (char c : path.substr(0, kMax)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  if (path.size() > kMax) out += "...";
  return out;
}

}  // namespace argon
