// The text of a .metal file with its own includes put in place: what a Mac compiles at run time (the
// framework's compiler takes one string and no include path), and what the executor starts from. One
// function, so both read the same text.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace argon::metal {

struct Source {
  std::string text;  // #include "x" replaced by the file, once each; #line keeps files and lines right
  std::vector<std::string> files;  // everything that was read, relative to the root
};

// Reads `path` (relative to `root`). #include <...> lines stay. Errors name the file and line of the include.
// The file itself must hold `#pragma METAL fp contract(off)`: without it a Mac would contract products and
// sums.
Result<Source> read_source(const std::string& root, const std::string& path);

}  // namespace argon::metal
