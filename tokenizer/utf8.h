// UTF-8, one sequence at a time. Well-formed means Unicode's table 3-7: no overlong forms, no surrogates,
// nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace argon {

// What the bytes at the front of a buffer are.
struct Utf8Step {
  enum Kind : uint8_t {
    kValid,       // `length` bytes encode `code_point`
    kIncomplete,  // all `length` bytes that are left are the beginning of a well-formed sequence
    kInvalid,  // `length` >= 1 bytes are ill-formed: the longest beginning of a well-formed sequence, or one
               // byte
  };
  Kind kind;
  uint8_t length;
  uint32_t code_point;
};

// `size` >= 1 bytes at `p`.
inline Utf8Step utf8_step(const char* p, size_t size) {
  const auto byte = [p](size_t i) { return static_cast<uint8_t>(p[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Step::kValid, 1, first};
  if (first < 0xC2 || first > 0xF4) return {Utf8Step::kInvalid, 1, 0};
  const uint8_t want = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range rules out overlong forms, surrogates and values that are too large.
  uint8_t low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  uint32_t cp = first & (0xFFu >> (want + 1));
  for (uint8_t i = 1; i < want; ++i) {
    if (i == size) return {Utf8Step::kIncomplete, i, 0};
    if (byte(i) < low || byte(i) > high) return {Utf8Step::kInvalid, i, 0};
    cp = (cp << 6) | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::kValid, want, cp};
}

inline void append_utf8(uint32_t cp, std::string& out) {
  if (cp < 0x80) {
    out.push_back(static_cast<char>(cp));
  } else if (cp < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (cp >> 6)));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else if (cp < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (cp >> 12)));
    out.push_back(static_cast<char>(0x80 | ((cp >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (cp >> 18)));
    out.push_back(static_cast<char>(0x80 | ((cp >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((cp >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  }
}

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// `bytes` as valid UTF-8: every ill-formed part (Utf8Step::kInvalid, or incomplete at the end) becomes one
// U+FFFD, as the WHATWG decoder and Rust's from_utf8_lossy do.
std::string to_valid_utf8(std::string_view bytes);

// A code point, or kBadByte for one byte that belongs to no well-formed sequence.
struct CodePoint {
  static constexpr uint32_t kBadByte = 0xFFFFFFFFu;
  uint32_t value;
  uint32_t length;  // bytes
};

inline CodePoint code_point_at(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1};
  const Utf8Step step = utf8_step(text.data() + at, text.size() - at);
  if (step.kind != Utf8Step::kValid) return {CodePoint::kBadByte, 1};
  return {step.code_point, step.length};
}

}  // namespace argon
