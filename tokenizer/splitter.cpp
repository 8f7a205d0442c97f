#include "tokenizer/splitter.h"

#include "tokenizer/utf8.h"

namespace argon {

bool Splitter::next(std::string_view* piece) {
  if (at_end(at_)) return false;
  const size_t end = piece_end(at_);
  *piece = text_.substr(at_, end - at_);
  at_ = end;
  return true;
}

Splitter::Char Splitter::look(size_t at) {
  ++visited_;
  const CodePoint c = code_point_at(text_, at);
  return {char_class(c.value), c.value, at + c.length};
}

size_t Splitter::piece_end(size_t at) {
  const Char first = look(at);
  if (first.value == '\'') {
    if (const size_t end = contraction_end(first.end); end != 0) return end;
  }

  // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ : if the first character is itself a letter (or a mark that counts as
  // one), taking it by the optional class or by the run gives the same piece.
  if (is_letter(first.kind)) return letters_end(first.end);
  if (first.kind == CharClass::kNumber) return first.end;
  if (first.kind != CharClass::kNewline && !at_end(first.end)) {
    const Char second = look(first.end);
    if (is_letter(second.kind)) return letters_end(second.end);
    if (first.value == ' ' && is_other(second.kind)) return others_end(second.end);
  }
  if (is_other(first.kind)) return others_end(first.end);
  return white_space_end(at);
}

// `at` is after an apostrophe. 0 if no contraction follows.
size_t Splitter::contraction_end(size_t at) {
  constexpr uint32_t kLongS = 0x17F;
  const auto lower = [](uint32_t cp) { return cp >= 'A' && cp <= 'Z' ? cp + ('a' - 'A') : cp; };
  if (at_end(at)) return 0;
  const Char first = look(at);
  const uint32_t a = lower(first.value);
  if (a == 's' || a == kLongS || a == 't' || a == 'm' || a == 'd') return first.end;
  if ((a != 'r' && a != 'v' && a != 'l') || at_end(first.end)) return 0;
  const Char second = look(first.end);
  const uint32_t b = lower(second.value);
  return b == (a == 'l' ? uint32_t{'l'} : uint32_t{'e'}) ? second.end : 0;
}

size_t Splitter::letters_end(size_t at) {
  while (!at_end(at)) {
    const Char c = look(at);
    if (!is_letter(c.kind)) break;
    at = c.end;
  }
  return at;
}

size_t Splitter::others_end(size_t at) {
  bool newlines = false;  // the run is over, its newlines follow
  while (!at_end(at)) {
    const Char c = look(at);
    newlines = newlines || !is_other(c.kind);
    if (newlines && c.kind != CharClass::kNewline) break;
    at = c.end;
  }
  return at;
}

// The three alternatives for white space, `at` being on some: up to the last newline of the run; else all of
// it at the end of the text; else all but the last character, which may go with the next piece; else that one
// character.
size_t Splitter::white_space_end(size_t at) {
  size_t end = at, last = at, after_newline = 0;
  while (!at_end(end)) {
    const Char c = look(end);
    if (c.kind == CharClass::kNewline) {
      after_newline = c.end;
    } else if (c.kind != CharClass::kSpace) {
      break;
    }
    last = end;
    end = c.end;
  }
  if (after_newline != 0) return after_newline;
  return at_end(end) || last == at ? end : last;
}

}  // namespace argon
