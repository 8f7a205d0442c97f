#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "tokenizer/unicode_tables.h"
#include "tokenizer/utf8.h"

namespace argon {
namespace {

bool is_white_space(uint32_t cp) {
  return (cp >= 0x09 && cp <= 0x0D) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
         cp == 0x3000;
}

template <class Range, size_t N>
const Range* find_range(const Range (&ranges)[N], uint32_t cp) {
  const Range* range = std::lower_bound(std::begin(ranges), std::end(ranges), cp,
                                        [](const Range& r, uint32_t v) { return r.last < v; });
  return range != std::end(ranges) && range->first <= cp ? range : nullptr;
}

CharClass compute_class(uint32_t cp) {
  if (cp == '\r' || cp == '\n') return CharClass::kNewline;
  if (is_white_space(cp)) return CharClass::kSpace;
  if (cp > 0x10FFFF) return CharClass::kOther;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(cp))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_CN: {
      const auto* range = find_range(kNewerClasses, cp);
      return range == nullptr ? CharClass::kOther : range->kind;
    }
    default:
      return CharClass::kOther;
  }
}

// Starters that are their own normal form C and never join the character before them (they may join one after
// them). Ranges chosen for what real text is made of; unicode_test checks them against utf8proc.
bool is_plain(uint32_t cp) {
  return cp < 0x300 || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x4E00 && cp <= 0x9FFF) ||
         (cp >= 0xAC00 && cp <= 0xD7A3) || cp == CodePoint::kBadByte;
}

// The one composite that Unicode 9 does not have (U+11935 U+11930).
constexpr utf8proc_int32_t kNewerComposite = 0x11938;

uint8_t combining_class(utf8proc_int32_t cp) {
  const auto c = static_cast<uint8_t>(utf8proc_get_property(cp)->combining_class);
  if (c == 0) return 0;
  return find_range(kNewerMarks, static_cast<uint32_t>(cp)) != nullptr ? uint8_t{0} : c;
}

class Composer {
 public:
  explicit Composer(uint64_t* work) : work_(work) {}

  // Appends the full canonical decomposition of `cp`.
  void push(uint32_t cp) {
    // At most 4 code points by Unicode's data; a longer answer of the library would be cut, never overrun.
    std::array<utf8proc_int32_t, 16> parts;
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, &boundary);
    if (n < 1 || n > static_cast<utf8proc_ssize_t>(parts.size()) || cp == kNewerComposite) {
      add(static_cast<utf8proc_int32_t>(cp));
      return;
    }
    for (utf8proc_ssize_t i = 0; i < n; ++i) add(parts[static_cast<size_t>(i)]);
  }

  // Orders, composes and appends what was pushed to `out`; starts anew.
  void flush(std::string& out) {
    order_marks();
    compose();
    for (const utf8proc_int32_t cp : text_) append_utf8(static_cast<uint32_t>(cp), out);
    text_.clear();
    class_.clear();
  }

 private:
  void add(utf8proc_int32_t cp) {
    text_.push_back(cp);
    class_.push_back(combining_class(cp));
  }

  void count(size_t n) {
    if (work_ != nullptr) *work_ += n;
  }

  // Stable sort by combining class of every run of characters whose class is not zero.
  void order_marks() {
    count(text_.size());
    for (size_t begin = 0; begin < text_.size();) {
      if (class_[begin] == 0) {
        ++begin;
        continue;
      }
      size_t end = begin + 1;
      bool sorted = true;
      for (; end < text_.size() && class_[end] != 0; ++end) sorted = sorted && class_[end - 1] <= class_[end];
      if (!sorted) sort_run(begin, end);
      begin = end;
    }
  }

  void sort_run(size_t begin, size_t end) {
    if (end - begin <= 16) {
      for (size_t i = begin + 1; i < end; ++i) {
        const utf8proc_int32_t cp = text_[i];
        const uint8_t c = class_[i];
        size_t j = i;
        for (; j > begin && class_[j - 1] > c; --j) {
          text_[j] = text_[j - 1];
          class_[j] = class_[j - 1];
          count(1);
        }
        text_[j] = cp;
        class_[j] = c;
      }
      return;
    }
    std::array<size_t, 257> place{};  // place[c]: where the next character of class c goes
    for (size_t i = begin; i < end; ++i) ++place[class_[i] + size_t{1}];
    for (size_t c = 1; c < place.size(); ++c) place[c] += place[c - 1];
    sorted_text_.resize(end - begin);
    sorted_class_.resize(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const size_t at = place[class_[i]]++;
      sorted_text_[at] = text_[i];
      sorted_class_[at] = class_[i];
    }
    for (size_t i = begin; i < end; ++i) {
      text_[i] = sorted_text_[i - begin];
      class_[i] = sorted_class_[i - begin];
    }
    count(2 * (end - begin) + 257);
  }

  // Canonical composition. utf8proc composes one pair at a time; which pairs meet is decided here, so that
  // the walk is linear and Hangul's one-past-the-end trailing consonant (U+11A7 is no T) is left alone.
  void compose() {
    constexpr size_t kNone = static_cast<size_t>(-1);
    count(text_.size());
    size_t starter = kNone, write = 0;
    int last_class = -1;  // of the last character kept since the starter; -1: none
    for (size_t read = 0; read < text_.size(); ++read) {
      const utf8proc_int32_t cp = text_[read];
      const int c = class_[read];
      if (starter != kNone && last_class < c) {
        const utf8proc_int32_t joined = pair(text_[starter], cp);
        if (joined >= 0) {
          text_[starter] = joined;
          continue;
        }
      }
      if (c == 0) {
        starter = write;
        last_class = -1;
      } else {
        last_class = c;
      }
      text_[write++] = cp;
    }
    text_.resize(write);
  }

  // The primary composite of two code points, or -1.
  static utf8proc_int32_t pair(utf8proc_int32_t a, utf8proc_int32_t b) {
    if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176) {
      return 0xAC00 + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
    }
    if (a >= 0xAC00 && a < 0xD7A4) {
      return (a - 0xAC00) % 28 == 0 && b > 0x11A7 && b < 0x11C3 ? a + (b - 0x11A7) : -1;
    }
    if (b < 0x300) return -1;  // nothing below composes backward
    utf8proc_int32_t two[2] = {a, b};
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(two, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    return n == 1 && two[0] != kNewerComposite ? two[0] : -1;
  }

  uint64_t* work_;
  std::vector<utf8proc_int32_t> text_, sorted_text_;
  std::vector<uint8_t> class_, sorted_class_;
};

}  // namespace

CharClass char_class(uint32_t code_point) {
  static const std::array<CharClass, 0x300> table = [] {
    std::array<CharClass, 0x300> t{};
    for (uint32_t cp = 0; cp < t.size(); ++cp) t[cp] = compute_class(cp);
    return t;
  }();
  return code_point < table.size() ? table[code_point] : compute_class(code_point);
}

bool is_trivially_nfc(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!is_plain(c.value)) return false;
    at += c.length;
  }
  return true;
}

std::string nfc(std::string_view text, uint64_t* work) {
  std::string out;
  out.reserve(text.size());
  Composer composer(work);
  // Plain characters are copied. A stretch of others is normalized together with the plain character before
  // it, which it may join; the plain character after it starts anew.
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t copied = 0, last_plain = kNone;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (work != nullptr) ++*work;
    if (is_plain(c.value)) {
      last_plain = c.value == CodePoint::kBadByte ? kNone : at;
      at += c.length;
      continue;
    }
    const size_t begin = last_plain == kNone ? at : last_plain;
    out.append(text.substr(copied, begin - copied));
    if (last_plain != kNone) composer.push(code_point_at(text, begin).value);
    while (at < text.size()) {
      const CodePoint next = code_point_at(text, at);
      if (is_plain(next.value)) break;
      if (work != nullptr) ++*work;
      composer.push(next.value);
      at += next.length;
    }
    composer.flush(out);
    copied = at;
    last_plain = kNone;
  }
  out.append(text.substr(copied));
  return out;
}

}  // namespace argon
