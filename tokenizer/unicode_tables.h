// Where the reference tokenizer's two Unicode versions differ from utf8proc 2.8's (Unicode 15). Sorted by
// code point.
#pragma once

#include <cstdint>

#include "tokenizer/unicode.h"

namespace argon {

struct CodePointRange {
  uint32_t first, last;
};
struct ClassRange {
  uint32_t first, last;
  CharClass kind;
};

// Combining marks assigned after Unicode 9, by first and last code point. The reference tokenizer normalizes
// by Unicode 9, where these are unassigned and so of class zero; models have learnt the ids that it gives.
inline constexpr CodePointRange kNewerMarks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}};

// Classes of the letters, marks and numbers assigned in Unicode 15.1 and 16, which the reference splits by.
// Consulted only for what utf8proc calls unassigned.
inline constexpr ClassRange kNewerClasses[] = {
    {0x897, 0x897, CharClass::kMark},       {0x1C89, 0x1C8A, CharClass::kLetter},
    {0xA7CB, 0xA7CD, CharClass::kLetter},   {0xA7DA, 0xA7DC, CharClass::kLetter},
    {0x105C0, 0x105F3, CharClass::kLetter}, {0x10D40, 0x10D49, CharClass::kNumber},
    {0x10D4A, 0x10D65, CharClass::kLetter}, {0x10D69, 0x10D6D, CharClass::kMark},
    {0x10D6F, 0x10D85, CharClass::kLetter}, {0x10EC2, 0x10EC4, CharClass::kLetter},
    {0x10EFC, 0x10EFC, CharClass::kMark},   {0x11380, 0x11389, CharClass::kLetter},
    {0x1138B, 0x1138B, CharClass::kLetter}, {0x1138E, 0x1138E, CharClass::kLetter},
    {0x11390, 0x113B5, CharClass::kLetter}, {0x113B7, 0x113B7, CharClass::kLetter},
    {0x113B8, 0x113C0, CharClass::kMark},   {0x113C2, 0x113C2, CharClass::kMark},
    {0x113C5, 0x113C5, CharClass::kMark},   {0x113C7, 0x113CA, CharClass::kMark},
    {0x113CC, 0x113D0, CharClass::kMark},   {0x113D1, 0x113D1, CharClass::kLetter},
    {0x113D2, 0x113D2, CharClass::kMark},   {0x113D3, 0x113D3, CharClass::kLetter},
    {0x113E1, 0x113E2, CharClass::kMark},   {0x116D0, 0x116E3, CharClass::kNumber},
    {0x11BC0, 0x11BE0, CharClass::kLetter}, {0x11BF0, 0x11BF9, CharClass::kNumber},
    {0x11F5A, 0x11F5A, CharClass::kMark},   {0x13460, 0x143FA, CharClass::kLetter},
    {0x16100, 0x1611D, CharClass::kLetter}, {0x1611E, 0x1612F, CharClass::kMark},
    {0x16130, 0x16139, CharClass::kNumber}, {0x16D40, 0x16D6C, CharClass::kLetter},
    {0x16D70, 0x16D79, CharClass::kNumber}, {0x18CFF, 0x18CFF, CharClass::kLetter},
    {0x1CCF0, 0x1CCF9, CharClass::kNumber}, {0x1E5D0, 0x1E5ED, CharClass::kLetter},
    {0x1E5EE, 0x1E5EF, CharClass::kMark},   {0x1E5F0, 0x1E5F0, CharClass::kLetter},
    {0x1E5F1, 0x1E5FA, CharClass::kNumber}, {0x2EBF0, 0x2EE5D, CharClass::kLetter}};

}  // namespace argon
