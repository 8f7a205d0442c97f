// The pre-tokenizer: cuts a text into the pieces that byte-pair merges never cross. It does what a
// backtracking engine does with
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ | \p{N} | ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*
//   | \s*[\r\n]+ | \s+(?!\S) | \s+
// (spaces round the bars are not part of it, but the optional one before the fourth class is), by a scanner
// that looks at every code point a bounded number of times and keeps no stack. `qwen2` is the same without
// \p{M}: there a mark is an "other" character. Case is folded as Unicode does, so U+017F (long s) counts as
// s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/unicode.h"

namespace argon {

enum class SplitRule : uint8_t { kQwen35, kQwen2 };

class Splitter {
 public:
  // `text` must outlive the splitter. It should be in normal form C; bytes that are not UTF-8 are "other"
  // characters, one each.
  Splitter(std::string_view text, SplitRule rule) : text_(text), rule_(rule) {}

  // The next piece, never empty; false at the end. The pieces follow each other without a gap and make up the
  // text.
  bool next(std::string_view* piece);

  // Code points looked at so far (tests check that this grows linearly).
  uint64_t visited() const { return visited_; }

 private:
  struct Char {
    CharClass kind;
    uint32_t value;
    size_t end;  // offset after it
  };
  bool at_end(size_t at) const { return at >= text_.size(); }
  Char look(size_t at);
  size_t piece_end(size_t at);
  size_t contraction_end(size_t at);
  size_t white_space_end(size_t at);
  size_t letters_end(size_t at);
  size_t others_end(size_t at);
  bool is_letter(CharClass kind) const {
    return kind == CharClass::kLetter || (kind == CharClass::kMark && rule_ == SplitRule::kQwen35);
  }
  bool is_other(CharClass kind) const {
    return kind == CharClass::kOther || (kind == CharClass::kMark && rule_ == SplitRule::kQwen2);
  }

  std::string_view text_;
  SplitRule rule_;
  size_t at_ = 0;
  uint64_t visited_ = 0;
};

}  // namespace argon
