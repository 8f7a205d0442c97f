#include "app/cli/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace argon::cli {
namespace {

std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupt_flag.store(true, std::memory_order_relaxed); }

// Returns 0 or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

bool Output::write(std::string_view text) {
  if (closed_ || !status_.ok()) return false;
  if (text.empty()) return true;
  last_ = text.back();
  const int e = write_all(STDOUT_FILENO, text);
  if (e == EPIPE) {
    closed_ = true;
  } else if (e != 0) {
    status_ = resource_error(fmt::format("cannot write to standard output: {}", std::strerror(e)));
  }
  return e == 0;
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

void say(std::string_view text) { (void)write_all(STDERR_FILENO, text); }

void say_line(std::string_view text) {
  std::string line = "argon: " + std::string(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  say(line + "\n");
}

void ProgressBar::show(double fraction, std::string_view text) {
  if (!on_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && fraction < 1.0 && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 24;
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  say(fmt::format("\r\x1b[K[{:#<{}}{:.<{}}] {}", "", full, "", kWidth - full, text));
}

void ProgressBar::clear() {
  if (shown_) say("\r\x1b[K");
  shown_ = false;
}

namespace {

void catch_signal(int signal) {
  struct sigaction a = {};
  a.sa_handler = on_interrupt;
  a.sa_flags = static_cast<int>(SA_RESETHAND);  // and no SA_RESTART: waiting for input ends, too
  sigaction(signal, &a, nullptr);
}

}  // namespace

void catch_interrupts() { catch_signal(SIGINT); }

void catch_termination() {
  catch_signal(SIGTERM);
  struct sigaction now = {};
  sigaction(SIGHUP, nullptr, &now);
  if (now.sa_handler != SIG_IGN) catch_signal(SIGHUP);  // nohup
}

bool interrupted() { return interrupt_flag.load(std::memory_order_relaxed); }

void clear_interrupt() {
  interrupt_flag.store(false, std::memory_order_relaxed);
  catch_interrupts();
}

}  // namespace argon::cli
