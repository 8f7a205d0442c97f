#include "tokenizer/splitter.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tokenizer/utf8.h"

namespace argon {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text, SplitRule rule) {
  Pieces pieces;
  Splitter splitter(text, rule);
  for (std::string_view piece; splitter.next(&piece);) pieces.emplace_back(piece);
  return pieces;
}

// The slow and obvious way: the expression as a tree of matchers that try every choice in a backtracking
// engine's order. A matcher gets a position and what must match after it; it returns the end of the whole
// match or -1.
class Backtracker {
 public:
  Backtracker(std::string_view text, SplitRule rule) {
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      chars_.push_back({c.value, char_class(c.value), at});
      at += c.length;
    }
    chars_.push_back({0, CharClass::kOther, text.size()});
    text_ = text;
    marks_ = rule == SplitRule::kQwen35;
  }

  Pieces pieces() {
    Pieces out;
    const int end = static_cast<int>(chars_.size()) - 1;
    for (int at = 0; at < end;) {
      const int stop = match(at);
      EXPECT_GT(stop, at);
      if (stop <= at) break;
      const size_t from = chars_[static_cast<size_t>(at)].offset;
      out.emplace_back(text_.substr(from, chars_[static_cast<size_t>(stop)].offset - from));
      at = stop;
    }
    return out;
  }

 private:
  struct Char {
    uint32_t value;
    CharClass kind;
    size_t offset;
  };
  using Next = std::function<int(int)>;
  using Class = std::function<bool(const Char&)>;

  bool is(int at, const Class& set) const {
    return at + 1 < static_cast<int>(chars_.size()) && set(chars_[static_cast<size_t>(at)]);
  }
  int one(int at, const Class& set, const Next& next) const { return is(at, set) ? next(at + 1) : -1; }
  int greedy(int at, const Class& set, int low, int high, const Next& next) const {
    int n = 0;
    while (n < high && is(at + n, set)) ++n;
    for (; n >= low; --n) {
      if (const int end = next(at + n); end >= 0) return end;
    }
    return -1;
  }
  int literal(int at, std::string_view word) const {
    for (const char c : word) {
      const Class same = [c](const Char& x) {
        const uint32_t folded = x.value == 0x17F                   ? 's'
                                : x.value >= 'A' && x.value <= 'Z' ? x.value + 32
                                                                   : x.value;
        return folded == static_cast<uint32_t>(c);
      };
      if (!is(at, same)) return -1;
      ++at;
    }
    return at;
  }

  int match(int at) const {
    const int kMany = 1 << 30;
    const Next done = [](int end) { return end; };
    const Class newline = [](const Char& c) { return c.kind == CharClass::kNewline; };
    const Class space = [](const Char& c) {
      return c.kind == CharClass::kNewline || c.kind == CharClass::kSpace;
    };
    const Class number = [](const Char& c) { return c.kind == CharClass::kNumber; };
    const Class letter = [this](const Char& c) {
      return c.kind == CharClass::kLetter || (marks_ && c.kind == CharClass::kMark);
    };
    const Class prefix = [&](const Char& c) {
      return !newline(c) && c.kind != CharClass::kLetter && !number(c);
    };
    const Class other = [&](const Char& c) { return !space(c) && !letter(c) && !number(c); };
    const Class blank = [](const Char& c) { return c.value == ' '; };

    for (const char* word : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (const int end = literal(at, word); end >= 0) return end;
    }
    int end = greedy(at, prefix, 0, 1, [&](int p) { return greedy(p, letter, 1, kMany, done); });
    if (end >= 0) return end;
    if (end = one(at, number, done); end >= 0) return end;
    end = greedy(at, blank, 0, 1, [&](int p) {
      return greedy(p, other, 1, kMany, [&](int q) { return greedy(q, newline, 0, kMany, done); });
    });
    if (end >= 0) return end;
    end = greedy(at, space, 0, kMany, [&](int p) { return greedy(p, newline, 1, kMany, done); });
    if (end >= 0) return end;
    const Class not_space = [&](const Char& c) { return !space(c); };
    end = greedy(at, space, 1, kMany, [&](int p) { return is(p, not_space) ? -1 : p; });
    if (end >= 0) return end;
    return greedy(at, space, 1, kMany, done);
  }

  std::vector<Char> chars_;
  std::string_view text_;
  bool marks_ = true;
};

TEST(Splitter, WordsByHand) {
  EXPECT_EQ(split("Hello, world!", SplitRule::kQwen35), (Pieces{"Hello", ",", " world", "!"}));
  EXPECT_EQ(split("don't  stop", SplitRule::kQwen35), (Pieces{"don", "'t", " ", " stop"}));
  EXPECT_EQ(split("a \n\n b12", SplitRule::kQwen35), (Pieces{"a", " \n\n", " b", "1", "2"}));
  EXPECT_EQ(split("  ", SplitRule::kQwen35), (Pieces{"  "}));
  EXPECT_EQ(split(" !!\r\n\tx", SplitRule::kQwen35), (Pieces{" !!\r\n", "\tx"}));
  EXPECT_EQ(split("'\xC5\xBFo", SplitRule::kQwen2), (Pieces{"'\xC5\xBF", "o"}));
  // A mark belongs to the word, or, for the older rule, does not.
  EXPECT_EQ(split("x\xCC\x81y", SplitRule::kQwen35), (Pieces{"x\xCC\x81y"}));
  EXPECT_EQ(split("x\xCC\x81y", SplitRule::kQwen2), (Pieces{"x", "\xCC\x81y"}));
  EXPECT_EQ(split("\xFF\xFE a", SplitRule::kQwen35), (Pieces{"\xFF\xFE", " a"}));
}

TEST(Splitter, RandomTextsEqualBacktracking) {
  const char* alphabet[] = {" ",
                            " ",
                            "\n",
                            "\r",
                            "\t",
                            "a",
                            "S",
                            "s",
                            "t",
                            "'",
                            "'",
                            "l",
                            "L",
                            "r",
                            "e",
                            "v",
                            "1",
                            "!",
                            ".",
                            "\xCC\x81",
                            "\xCC\x96",
                            "\xC5\xBF",
                            "\xE3\x80\x80",
                            "\xC2\x85",
                            "\xE4\xB8\xAD",
                            "\xC2\xB2",
                            "\xF0\x9F\x98\x80",
                            "\xFF",
                            "\xE2\x82",
                            "\xC2\xA0",
                            "d",
                            "m"};
  std::mt19937 rng(7);
  for (int i = 0; i < 60000; ++i) {
    std::string text;
    const size_t kinds = 1 + rng() % std::size(alphabet);
    const size_t shift = rng();
    for (size_t n = rng() % 14; n > 0; --n) text += alphabet[(shift + rng() % kinds) % std::size(alphabet)];
    for (const SplitRule rule : {SplitRule::kQwen35, SplitRule::kQwen2}) {
      ASSERT_EQ(split(text, rule), Backtracker(text, rule).pieces()) << ::testing::PrintToString(text);
    }
  }
}

// A megabyte of one kind of character, and of mixtures that make the alternatives look far ahead.
TEST(Splitter, LooksAtEveryCharacterABoundedNumberOfTimes) {
  for (const std::string unit :
       {"a",   " ",   "\n", "1",  "!",  "'",  "\xCC\x81", "\x01", "\xF0\x9F\x98\x80", "\xFF",
        " \n", "\n ", " !", "! ", "'s", " a", "\r\n",     "!\n",  "a\xCC\x81",        "\t "}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    for (const std::string& variant : {text, "\n" + text, text + "x"}) {
      for (const SplitRule rule : {SplitRule::kQwen35, SplitRule::kQwen2}) {
        Splitter splitter(variant, rule);
        size_t total = 0;
        for (std::string_view piece; splitter.next(&piece);) total += piece.size();
        EXPECT_EQ(total, variant.size());
        EXPECT_LE(splitter.visited(), 4 * variant.size() + 4) << ::testing::PrintToString(unit);
      }
    }
  }
}

}  // namespace
}  // namespace argon
