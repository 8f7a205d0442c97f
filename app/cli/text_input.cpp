#include "app/cli/text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "app/cli/terminal.h"
#include "tokenizer/tokenizer.h"

namespace argon::cli {

void add_text_options(CLI::App& app, TextOptions& o, const char* what) {
  app.add_option("TEXT", o.positional, fmt::format("{} (else -p, -f, or what is piped in)", what))
      ->type_name("");
  app.add_option("-p,--prompt", o.prompt, "The same as TEXT")->type_name("TEXT");
  app.add_option("-f,--file", o.file, "Read it from a file; - is standard input")->type_name("FILE");
}

Result<std::string> read_file(const std::string& path, const char* option, size_t max_bytes) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : fmt::format("{} {}", option, path);
  const auto failed = [&](int e) {
    return bad_input(fmt::format("cannot read {}: {}", name, std::strerror(e)));
  };
  const int fd = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(errno);
  std::string text;
  Status status;
  char block[65536];
  while (status.ok()) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR && !interrupted()) continue;
      status = interrupted() ? Status(Code::kCancelled, "interrupted") : failed(errno);
    } else {
      text.append(block, static_cast<size_t>(n));
      if (text.size() > max_bytes) {
        status = bad_input(fmt::format("{} has more than {} bytes: wanted at most that", name, max_bytes));
      }
    }
  }
  if (!standard) ::close(fd);
  if (!status.ok()) return status;
  return text;
}

Result<std::string> read_text(const TextOptions& o) {
  if (int{o.positional.has_value()} + int{o.prompt.has_value()} + int{o.file.has_value()} > 1) {
    return bad_input("the text is given twice: wanted one of TEXT, -p TEXT and -f FILE");
  }
  if (o.positional) return *o.positional;
  if (o.prompt) return *o.prompt;
  if (!o.file && isatty(STDIN_FILENO) == 1) {
    return bad_input("no text: give it as TEXT, with -p TEXT or -f FILE, or pipe it in");
  }
  return read_file(o.file.value_or("-"), "-f", Tokenizer::kMaxTextBytes);
}

Result<std::vector<int32_t>> parse_ids(std::string_view text, int64_t vocabulary) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;
       at = text.find_first_not_of(kSpace, at)) {
    const std::string_view word = text.substr(at, text.find_first_of(kSpace, at) - at);
    at += word.size();
    int32_t id = 0;
    const auto [p, e] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (e != std::errc() || p != word.data() + word.size() || id < 0 || id >= vocabulary) {
      return bad_input(fmt::format("token {} is '{}': wanted an id 0..{}", ids.size() + 1, word.substr(0, 40),
                                   vocabulary - 1));
    }
    ids.push_back(id);
  }
  if (ids.empty()) return bad_input("there are no token ids: wanted at least one");
  return ids;
}

}  // namespace argon::cli
