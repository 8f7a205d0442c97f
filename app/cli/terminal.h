// What the user sees and does: standard output and error, the progress bar, Ctrl-C.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace argon::cli {

// Standard output, unbuffered: an answer appears as it is written.
class Output {
 public:
  // False once writing has failed. That the reader has closed the pipe (as `head` does) is no error.
  bool write(std::string_view text);
  bool closed() const { return closed_; }
  // kResource when writing failed for another reason than a closed pipe.
  const Status& status() const { return status_; }
  bool ends_in_newline() const { return last_ == '\n'; }

 private:
  bool closed_ = false;
  char last_ = '\n';
  Status status_;
};

bool stderr_is_terminal();
// Writes to standard error; that nobody reads it is no matter.
void say(std::string_view text);
// One line "argon: TEXT" on standard error, whatever newlines TEXT holds.
void say_line(std::string_view text);

// A bar on standard error, if that is a terminal, gone with the object.
class ProgressBar {
 public:
  ProgressBar() : on_(stderr_is_terminal()) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(double fraction, std::string_view text);
  void clear();

 private:
  bool on_, shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

// From here on Ctrl-C sets a flag; pressed again before the flag is taken back, it ends the process.
void catch_interrupts();
// Likewise SIGTERM and, where it is not ignored, SIGHUP: for commands that would leave something unfinished.
void catch_termination();
bool interrupted();
void clear_interrupt();

}  // namespace argon::cli
