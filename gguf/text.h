// How untrusted text and numbers from a file appear in one-line messages.
#pragma once

#include <string>
#include <string_view>

namespace argon {

// The text in single quotes with control bytes and bytes that are not ASCII as \xNN, cut after 80 bytes: a
// name from a hostile file can neither break the line nor reach the terminal.
std::string quote(std::string_view text);

// A path as it appears at the start of a message: control bytes as \xNN, cut after 400 bytes.
std::string printable_path(std::string_view path);

}  // namespace argon
