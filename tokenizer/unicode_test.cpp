#include "tokenizer/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <random>

#include "tokenizer/utf8.h"

namespace argon {
namespace {

std::string utf8(std::initializer_list<uint32_t> code_points) {
  std::string out;
  for (const uint32_t cp : code_points) append_utf8(cp, out);
  return out;
}

TEST(Utf8, EveryCodePointComesBack) {
  for (uint32_t cp = 0; cp < 0x110000; ++cp) {
    const std::string s = utf8({cp});
    const Utf8Step step = utf8_step(s.data(), s.size());
    if (cp >= 0xD800 && cp < 0xE000) {
      ASSERT_EQ(step.kind, Utf8Step::kInvalid) << cp;
      continue;
    }
    ASSERT_EQ(step.kind, Utf8Step::kValid) << cp;
    ASSERT_EQ(step.code_point, cp);
    ASSERT_EQ(step.length, s.size());
    for (size_t n = 1; n < s.size(); ++n) {
      const Utf8Step part = utf8_step(s.data(), n);
      ASSERT_EQ(part.kind, Utf8Step::kIncomplete) << cp;
      ASSERT_EQ(part.length, n);
    }
  }
}

TEST(Utf8, IllFormedPartsBecomeOneReplacementEach) {
  const std::string r(kReplacementCharacter);
  const std::pair<std::string, std::string> cases[] = {
      {"a\x80z", "a" + r + "z"},                         // lone continuation
      {"\xC0\xAF", r + r},                               // overlong
      {"\xE2\x82z", r + "z"},                            // cut short: one maximal part
      {"\xF0\x9F\x98", r},                               // cut short at the end
      {"\xED\xA0\x80", r + r + r},                       // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},               // too large
      {"\xE2\xF0\x9F\x98\x80", r + "\xF0\x9F\x98\x80"},  // interrupted
      {"\xFF\xFE", r + r},
  };
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(to_valid_utf8(bytes), expected);
}

// utf8proc's normal form C, for texts short enough for it. Only code points that Unicode 9 had may be in
// them.
std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* out = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string s(reinterpret_cast<const char*>(out));
  std::free(out);
  return s;
}

TEST(Nfc, KnownForms) {
  EXPECT_EQ(nfc(utf8({'e', 0x301})), utf8({0xE9}));
  EXPECT_EQ(nfc(utf8({'e', 0x316, 0x301})), utf8({0xE9, 0x316}));
  EXPECT_EQ(nfc(utf8({'e', 0x301, 0x316})), utf8({0xE9, 0x316}));
  EXPECT_EQ(nfc(utf8({'e', 0x300, 0x301})), utf8({0xE8, 0x301}));            // the second is blocked
  EXPECT_EQ(nfc(utf8({0x2126})), utf8({0x3A9}));                             // singleton
  EXPECT_EQ(nfc(utf8({0x958})), utf8({0x915, 0x93C}));                       // composition exclusion
  EXPECT_EQ(nfc(utf8({0x1100, 0x1161, 0x11A8})), utf8({0xAC01}));            // Hangul L V T
  EXPECT_EQ(nfc(utf8({0xAC00, 0x11A8})), utf8({0xAC01}));                    // LV T
  EXPECT_EQ(nfc(utf8({0xAC00, 0x11A7})), utf8({0xAC00, 0x11A7}));            // no T
  EXPECT_EQ(nfc(utf8({0xAC01, 0x11A8})), utf8({0xAC01, 0x11A8}));            // LVT takes no more
  EXPECT_EQ(nfc(utf8({'a', 0x1E130, 0x316})), utf8({'a', 0x1E130, 0x316}));  // newer than Unicode 9
  EXPECT_EQ(nfc(utf8({0x11938})), utf8({0x11938}));
  EXPECT_EQ(nfc(utf8({0x11935, 0x11930})), utf8({0x11935, 0x11930}));
}

TEST(Nfc, BadBytesStayAndSeparate) {
  EXPECT_EQ(nfc("e\xFF\xCC\x81"), "e\xFF\xCC\x81");
  EXPECT_EQ(nfc("\xCC"), "\xCC");
  EXPECT_EQ(nfc("\xC3"
                "e\xCC\x81\xC3"),
            "\xC3\xC3\xA9\xC3");
  const std::string with_zero("a\0e\xCC\x81", 5);
  EXPECT_EQ(nfc(with_zero), std::string("a\0\xC3\xA9", 4));
}

TEST(Nfc, PlainTextIsKnownWithoutWork) {
  EXPECT_TRUE(is_trivially_nfc("plain ASCII"));
  EXPECT_TRUE(is_trivially_nfc(utf8({0xE9, 0x4E2D, 0xAC00})));
  EXPECT_TRUE(is_trivially_nfc("\xFF"));
  EXPECT_FALSE(is_trivially_nfc(utf8({'e', 0x301})));
}

// What is taken as plain must be its own normal form, also behind every letter it could join.
TEST(Nfc, PlainCodePointsAreStartersThatJoinNothingBefore) {
  for (uint32_t cp = 1; cp < 0x110000; ++cp) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    const std::string s = utf8({cp});
    if (!is_trivially_nfc(s)) continue;
    ASSERT_EQ(library_nfc(s), s) << cp;
    ASSERT_EQ(utf8proc_get_property(static_cast<utf8proc_int32_t>(cp))->combining_class, 0) << cp;
  }
  // No canonical decomposition has one in second place.
  for (uint32_t cp = 0xC0; cp < 0x110000; ++cp) {
    utf8proc_int32_t parts[16];
    int boundary = 0;
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), parts, 16, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 1; i < n; ++i)
      ASSERT_FALSE(is_trivially_nfc(utf8({static_cast<uint32_t>(parts[i])}))) << cp;
  }
}

TEST(Nfc, RandomTextsEqualTheLibrary) {
  // Letters, composed letters, marks of many classes, Hangul.
  const std::pair<uint32_t, uint32_t> ranges[] = {
      {'a', 'z'},         {0xC0, 0x17F},    {0x300, 0x362},   {0x300, 0x362},
      {0x591, 0x5BD},     {0x1E00, 0x1EFF}, {0x1F00, 0x1F15}, {0x915, 0x94D},
      {0x1100, 0x1112},   {0x1161, 0x1175}, {0x11A7, 0x11C2}, {0xAC00, 0xAC1C},
      {0x1D157, 0x1D172}, {0xF900, 0xFA0D}, {0x2ADC, 0x2ADC}, {0x338, 0x338}};
  std::mt19937 rng(1);
  for (int i = 0; i < 30000; ++i) {
    std::string text;
    for (size_t n = rng() % 40; n > 0; --n) {
      const auto& [low, high] = ranges[rng() % std::size(ranges)];
      append_utf8(low + static_cast<uint32_t>(rng()) % (high - low + 1), text);
    }
    // utf8proc takes U+11A7 for a trailing consonant; the standard does not.
    if (text.find(utf8({0x11A7})) != std::string::npos) continue;
    const std::string normal = nfc(text);
    ASSERT_EQ(normal, library_nfc(text));
    ASSERT_EQ(nfc(normal), normal);
  }
}

TEST(Nfc, WorkGrowsLinearlyOnRunsOfMarks) {
  const auto work = [](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += utf8({0x301, 0x316});
    uint64_t steps = 0;
    const std::string normal = nfc(text, &steps);
    EXPECT_EQ(normal.size(), text.size());
    EXPECT_EQ(normal.substr(0, 4), utf8({0x316, 0x316}));
    return steps;
  };
  EXPECT_LT(work(250000), 11 * work(25000));
}

TEST(CharClass, WhiteSpaceAndFriends) {
  EXPECT_EQ(char_class('\n'), CharClass::kNewline);
  EXPECT_EQ(char_class('\r'), CharClass::kNewline);
  for (const uint32_t cp : {0x9u, 0xBu, 0xCu, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2028u, 0x3000u}) {
    EXPECT_EQ(char_class(cp), CharClass::kSpace) << cp;
  }
  for (const uint32_t cp : {0x1Cu, 0x1Fu, 0x180Eu, 0x200Bu, 0xFEFFu})
    EXPECT_EQ(char_class(cp), CharClass::kOther) << cp;
  EXPECT_EQ(char_class(0x4E2D), CharClass::kLetter);
  EXPECT_EQ(char_class(0x2B0), CharClass::kLetter);
  EXPECT_EQ(char_class(0x301), CharClass::kMark);
  EXPECT_EQ(char_class(0xB2), CharClass::kNumber);
  EXPECT_EQ(char_class(0x2167), CharClass::kNumber);
  EXPECT_EQ(char_class(0x1F600), CharClass::kOther);
  EXPECT_EQ(char_class(0x2EBF0), CharClass::kLetter);  // Unicode 15.1
  EXPECT_EQ(char_class(0x10D40), CharClass::kNumber);  // Unicode 16
  EXPECT_EQ(char_class(0x897), CharClass::kMark);
  EXPECT_EQ(char_class(0x10FFFF), CharClass::kOther);
  EXPECT_EQ(char_class(CodePoint::kBadByte), CharClass::kOther);
}

}  // namespace
}  // namespace argon
