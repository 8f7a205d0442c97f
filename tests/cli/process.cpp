#include "tests/cli/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace argon::testing {
namespace {

constexpr double kPatience = 120;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void make_pipe(int ends[2]) {
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

std::string argon_program() { return ARGON_PROGRAM; }

Process::Process(const Args& command, Io io) : terminal_(io == Io::kTerminal), deadline_(now() + kPatience) {
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  int in[2] = {-1, -1}, out[2], err[2] = {-1, -1};
  make_pipe(out);
  if (terminal_) {
    winsize size = {24, 100, 0, 0};
    if (::openpty(&in[1], &in[0], nullptr, nullptr, &size) != 0) std::abort();
    ::fcntl(in[1], F_SETFD, FD_CLOEXEC);
  } else {
    make_pipe(in);
    make_pipe(err);
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    if (terminal_) {
      ::setsid();
      ::ioctl(in[0], TIOCSCTTY, 0);
    }
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(terminal_ ? in[0] : err[1], 2);
    if (terminal_) ::close(in[0]);
    ::signal(SIGPIPE, SIG_DFL);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_fd_ = out[0];
  if (terminal_) {
    err_fd_ = ::fcntl(in_, F_DUPFD_CLOEXEC, 0);
  } else {
    ::close(err[1]);
    err_fd_ = err[0];
  }
}

Process::~Process() {
  close_fd(in_);
  close_fd(out_fd_);
  close_fd(err_fd_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool Process::pump() {
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  const double left = deadline_ - now();
  if (left <= 0) return false;
  pollfd fds[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  if (::poll(fds, 2, static_cast<int>(left * 1000) + 1) < 0) return errno == EINTR;
  const auto take = [](const pollfd& p, int& fd, std::string& to) {
    if (p.revents == 0) return;
    char block[65536];
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n > 0) {
      to.append(block, static_cast<size_t>(n));
    } else {
      close_fd(fd);  // a terminal whose last user has gone gives EIO
    }
  };
  take(fds[0], out_fd_, out_);
  take(fds[1], err_fd_, err_);
  return true;
}

void Process::type(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(in_, text.data(), text.size());
    if (n <= 0) return;  // it has ended, and what it said will tell
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void Process::close_input() {
  if (!terminal_) close_fd(in_);
}
void Process::close_output() { close_fd(out_fd_); }
void Process::signal(int number) { ::kill(pid_, number); }

bool Process::wait_for(std::string& from, size_t& seen, std::string_view text) {
  for (;;) {
    const size_t at = from.find(text, seen);
    if (at != std::string::npos) {
      seen = at + text.size();
      return true;
    }
    if (!pump()) {
      ADD_FAILURE() << "waited in vain for '" << text << "'; standard output: " << out_
                    << "\nstandard error: " << err_;
      return false;
    }
  }
}

void Process::skip_out() {
  pollfd p = {out_fd_, POLLIN, 0};
  while (::poll(&p, 1, 0) > 0 && pump()) {
  }
  out_seen_ = out_.size();
}

bool Process::wait_for_some_out() {
  while (out_.size() == out_seen_) {
    if (pump()) continue;
    ADD_FAILURE() << "nothing came on standard output; standard error: " << err_;
    return false;
  }
  out_seen_ = out_.size();
  return true;
}

Ran Process::finish() {
  close_input();
  while (pump()) {
  }
  if (now() >= deadline_) {
    ADD_FAILURE() << "it had not ended after " << kPatience << " s; standard error: " << err_;
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  Ran r;
  r.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  r.out = std::move(out_);
  r.err = std::move(err_);
  return r;
}

Ran run_program(const Args& command, std::string_view input) {
  // Inputs here are short enough for a pipe's buffer.
  ::signal(SIGPIPE, SIG_IGN);
  Process p(command, Process::Io::kPipes);
  p.type(input);
  return p.finish();
}

Ran argon(Args args, std::string_view input) {
  args.insert(args.begin(), argon_program());
  return run_program(args, input);
}

}  // namespace argon::testing
