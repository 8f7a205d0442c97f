#include "tokenizer/utf8.h"

namespace argon {

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes.data() + at, bytes.size() - at);
    out += step.kind == Utf8Step::kValid ? bytes.substr(at, step.length) : kReplacementCharacter;
    at += step.length;
  }
  return out;
}

}  // namespace argon
