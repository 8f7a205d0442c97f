#include "app/cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace argon::cli {

Status OutputFile::failed(const char* what) const {
  return resource_error(fmt::format("cannot {} {}: {}", what, path_, std::strerror(errno)));
}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  std::unique_ptr<OutputFile> f(new OutputFile);
  f->path_ = path;
  struct stat st;
  const bool there = ::stat(path.c_str(), &st) == 0;
  if (there && S_ISDIR(st.st_mode)) return bad_input(path + " is a directory: wanted a file to write");
  if (there && !S_ISREG(st.st_mode)) {
    f->fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // A link stays a link: the file that it names is replaced.
    char real[PATH_MAX];
    if (there && ::realpath(path.c_str(), real) != nullptr) f->path_ = real;
    f->temporary_ = fmt::format("{}.tmp{}", f->path_, ::getpid());
    f->fd_ = ::open(f->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (f->fd_ < 0) {
    const Status s = f->failed("write");
    f->temporary_.clear();
    return bad_input(s.message());
  }
  return f;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::write(const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0) {
      if (errno == EINTR) continue;
      return failed("write");
    }
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

Status OutputFile::commit() {
  const int rc = ::close(fd_);
  fd_ = -1;
  if (rc != 0) return failed("write");
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("replace");
  temporary_.clear();
  return {};
}

}  // namespace argon::cli
