// Running a program as a user does: over pipes, or in a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace argon::testing {

using Args = std::vector<std::string>;

struct Ran {
  int exit_code = -1;  // 128 + signal when one ended it
  std::string out, err;
};

// The built argon.
std::string argon_program();

// Runs to the end, giving `input` on standard input. A program that has not ended after two minutes is
// killed, and the test fails.
Ran run_program(const Args& command, std::string_view input = "");
Ran argon(Args args, std::string_view input = "");

// A running program. Everything waits at most two minutes, then fails the test.
class Process {
 public:
  enum class Io {
    kPipes,     // standard input, output and error are pipes
    kTerminal,  // standard input and error are a terminal, standard output a pipe
  };
  Process(const Args& command, Io io);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void type(std::string_view text);
  void close_input();
  // From here on nobody reads standard output.
  void close_output();
  void signal(int number);
  // Waits until standard output (or error) holds `text` beyond what earlier calls have matched.
  bool wait_for_out(std::string_view text) { return wait_for(out_, out_seen_, text); }
  // Waits until there is anything on standard output that came after the last call of skip_out().
  bool wait_for_some_out();
  // Takes what is on standard output now as seen.
  void skip_out();
  bool wait_for_err(std::string_view text) { return wait_for(err_, err_seen_, text); }
  // Waits for the end.
  Ran finish();

 private:
  bool wait_for(std::string& from, size_t& seen, std::string_view text);
  // Reads what there is; false when both streams have ended or the time is over.
  bool pump();

  int pid_ = -1, in_ = -1, out_fd_ = -1, err_fd_ = -1;
  bool terminal_;
  std::string out_, err_;
  size_t out_seen_ = 0, err_seen_ = 0;
  double deadline_;
};

}  // namespace argon::testing
