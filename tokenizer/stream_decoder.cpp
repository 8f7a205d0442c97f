#include "tokenizer/stream_decoder.h"

#include <utility>

#include "tokenizer/utf8.h"

namespace argon {

std::string StreamDecoder::push(int32_t id) {
  if (control_ == Control::kHide && tokenizer_.is_control(id)) return {};
  std::string bytes = std::exchange(held_, {});
  tokenizer_.append_bytes(id, bytes);
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes.data() + at, bytes.size() - at);
    if (step.kind == Utf8Step::kIncomplete) {
      held_ = bytes.substr(at);
      break;
    }
    if (step.kind == Utf8Step::kValid) {
      out.append(bytes, at, step.length);
    } else {
      out += kReplacementCharacter;
    }
    at += step.length;
  }
  return out;
}

std::string StreamDecoder::finish() { return to_valid_utf8(std::exchange(held_, {})); }

}  // namespace argon
