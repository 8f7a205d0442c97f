// Where a command's text comes from: the command line, a file, or a pipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}

namespace argon::cli {

struct TextOptions {
  std::optional<std::string> positional, prompt, file;
};

// TEXT, -p TEXT and -f FILE.
void add_text_options(CLI::App& app, TextOptions& o, const char* what);

// The text's bytes as they are. kBadInput: more than one source, none and standard input is a terminal, a
// file that cannot be read, more than Tokenizer::kMaxTextBytes.
Result<std::string> read_text(const TextOptions& o);

// A whole file, "-" for standard input; `option` names it in messages. kCancelled after Ctrl-C.
Result<std::string> read_file(const std::string& path, const char* option, size_t max_bytes);

// Whitespace-separated token ids. kBadInput names the first word that is none, and where it stands; ids must
// be below `vocabulary`.
Result<std::vector<int32_t>> parse_ids(std::string_view text, int64_t vocabulary);

}  // namespace argon::cli
