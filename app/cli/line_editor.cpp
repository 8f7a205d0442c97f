#include "app/cli/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>

#include "app/cli/terminal.h"

namespace argon::cli {
namespace fs = std::filesystem;
namespace {

constexpr int kHistoryLines = 1000;

// One byte; 0 at the end, -1 after Ctrl-C or an error.
ssize_t read_byte(char* c) {
  for (;;) {
    if (interrupted()) return -1;
    const ssize_t n = ::read(STDIN_FILENO, c, 1);
    if (n >= 0 || errno != EINTR) return n;
  }
}

class PlainLines final : public LineEditor {
 public:
  End read(const std::string&, std::string& line) override {
    line.clear();
    for (;;) {
      const size_t newline = held_.find('\n');
      if (newline != std::string::npos || (ended_ && !held_.empty())) {
        line = held_.substr(0, newline);
        held_.erase(0, newline == std::string::npos ? newline : newline + 1);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        return End::kLine;
      }
      if (interrupted()) return End::kInterrupted;
      if (ended_) return End::kEof;
      char block[4096];
      const ssize_t n = ::read(STDIN_FILENO, block, sizeof block);
      if (n > 0) held_.append(block, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) ended_ = true;
    }
  }
  bool is_terminal() const override { return false; }

 private:
  std::string held_;
  bool ended_ = false;
};

// A character of the terminal, so that Ctrl-C is seen at once: libedit's own reading begins again after a
// signal. 1, 0 at the end, -1 after Ctrl-C.
int read_character(EditLine*, wchar_t* out) {
  std::mbstate_t state = {};
  for (;;) {
    char c;
    const ssize_t n = read_byte(&c);
    if (n <= 0) return static_cast<int>(n);
    const size_t used = std::mbrtowc(out, &c, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // more bytes of this character to come
    if (used == static_cast<size_t>(-1)) {
      state = {};
      continue;  // no character of this locale
    }
    return 1;
  }
}

class EditedLines final : public LineEditor {
 public:
  EditedLines() : history_(history_init()), edit_(el_init("argon", stdin, stderr, stderr)) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    open_history();
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &EditedLines::prompt_of);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 0);
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_GETCFN, read_character);
    el_source(edit_, nullptr);
  }
  ~EditedLines() override {
    el_end(edit_);
    history_end(history_);
  }
  EditedLines(const EditedLines&) = delete;
  EditedLines& operator=(const EditedLines&) = delete;

  End read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    int n = 0;
    const char* text = el_gets(edit_, &n);
    if (interrupted()) {
      el_reset(edit_);
      say("\n");
      return End::kInterrupted;
    }
    if (text == nullptr || n <= 0) {
      say("\n");
      return End::kEof;
    }
    line.assign(text, static_cast<size_t>(n));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) {
      HistEvent event;
      history(history_, &event, H_ENTER, line.c_str());
      if (!file_.empty()) history(history_, &event, H_SAVE, file_.c_str());
    }
    return End::kLine;
  }
  bool is_terminal() const override { return true; }

 private:
  static char* prompt_of(EditLine* edit) {
    EditedLines* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  void open_history() {
    const std::string path = history_path();
    if (path.empty()) return;
    std::error_code e;
    fs::create_directories(fs::path(path).parent_path(), e);
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    ::close(fd);
    file_ = path;
    HistEvent event;
    history(history_, &event, H_LOAD, file_.c_str());
  }

  History* history_;
  EditLine* edit_;
  std::string prompt_, file_;
};

}  // namespace

std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + "/argon/history";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.local/state/argon/history";
  return "";
}

std::unique_ptr<LineEditor> LineEditor::create() {
  if (isatty(STDIN_FILENO) != 1 || !stderr_is_terminal()) return std::make_unique<PlainLines>();
  // libedit works in characters of the locale; text here is UTF-8 whatever the environment says.
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
  return std::make_unique<EditedLines>();
}

}  // namespace argon::cli
