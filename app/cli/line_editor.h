// Lines from the user: with editing and history on a terminal, plainly from anything else.
#pragma once

#include <memory>
#include <string>

namespace argon::cli {

class LineEditor {
 public:
  enum class End {
    kLine,         // there is a line
    kEof,          // Ctrl-D, or the input ended
    kInterrupted,  // Ctrl-C
  };

  // Line editing needs a terminal as standard input and as standard error, where the prompt is shown:
  // standard output is the answer's. The history is kept in $XDG_STATE_HOME/argon/history, else
  // ~/.local/state/argon/history, readable by the user alone; when it cannot be, there is none.
  static std::unique_ptr<LineEditor> create();
  virtual ~LineEditor() = default;

  // The next line without its end. `prompt` is shown on a terminal.
  virtual End read(const std::string& prompt, std::string& line) = 0;
  virtual bool is_terminal() const = 0;
};

// The history file; empty when neither variable names an absolute folder.
std::string history_path();

}  // namespace argon::cli
