// The byte alphabet of byte-level BPE vocabularies: each byte is written as one printable character.
// Printable Latin-1 bytes stand for themselves; the other 68, in order, are U+0100, U+0101, ... (a space is
// U+0120, a newline U+010A).
#pragma once

#include <array>
#include <cstdint>

namespace argon {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The character of each byte.
inline constexpr std::array<uint16_t, 256> kByteToCharacter = [] {
  std::array<uint16_t, 256> table{};
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    table[b] = stands_for_itself(b) ? static_cast<uint16_t>(b) : next++;
  }
  return table;
}();

// The byte of a character below 0x144, or -1; characters from 0x144 on are not in the alphabet.
inline constexpr std::array<int16_t, 0x144> kCharacterToByte = [] {
  std::array<int16_t, 0x144> table{};
  for (auto& entry : table) entry = -1;
  for (unsigned b = 0; b < 256; ++b) table[kByteToCharacter[b]] = static_cast<int16_t>(b);
  return table;
}();

}  // namespace argon
