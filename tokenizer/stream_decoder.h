// Token ids to text as they come: every piece given out is valid UTF-8, and the pieces together are
// to_valid_utf8(decode(ids)).
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/tokenizer.h"

namespace argon {

class StreamDecoder {
 public:
  enum class Control : uint8_t { kHide, kShow };  // the text of control tokens

  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, Control control = Control::kHide)
      : tokenizer_(tokenizer), control_(control) {}

  // The text that is now certain; bytes that may begin a character (at most 3) are held back until the next
  // ones come. Bytes that can no longer become one, and an id out of range, give U+FFFD.
  std::string push(int32_t id);
  // What was held back, as one U+FFFD (empty if nothing was); the decoder can be used anew.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  Control control_;
  std::string held_;
};

}  // namespace argon
