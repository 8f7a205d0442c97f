// The two things that the tokenizer needs from Unicode: the splitter's character classes and normal form C.
// Properties come from utf8proc (Debian 12: 2.8, Unicode 15), with small tables where the reference
// tokenizer, whose ids models have learnt, uses other versions: it splits by Unicode 16 and normalizes by
// Unicode 9 (combining marks assigned since then neither move nor join).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace argon {

enum class CharClass : uint8_t {
  kLetter,   // \p{L}
  kMark,     // \p{M}
  kNumber,   // \p{N}
  kSpace,    // \s (Unicode White_Space) other than \r and \n
  kNewline,  // \r and \n
  kOther,    // the rest, and bytes that are not UTF-8 (CodePoint::kBadByte)
};

// Class of a code point or of CodePoint::kBadByte.
CharClass char_class(uint32_t code_point);

// Normal form C of `text` (UAX #15). Bytes that are not UTF-8 are kept as they are; nothing composes or
// reorders across them. Linear in the text's length whatever it holds: utf8proc's own canonical ordering
// exchanges neighbours, which is quadratic on long runs of combining marks, so ordering is done here by
// counting. `work`, if not null, is increased by the number of elementary steps (tests bound it).
std::string nfc(std::string_view text, uint64_t* work = nullptr);

// True if `text` holds no code point that normal form C could change; such a text need not be copied. May be
// false for a text that is in normal form C.
bool is_trivially_nfc(std::string_view text);

}  // namespace argon
