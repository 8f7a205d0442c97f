#include "gguf/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gguf/text.h"

namespace argon {
namespace {

int64_t mtime_ns(const struct stat& st) {
#if defined(__APPLE__)
  const struct timespec t = st.st_mtimespec;
#else
  const struct timespec t = st.st_mtim;
#endif
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

Status open_error(const std::string& path, int error) {
  const std::string shown = printable_path(path);
  switch (error) {
    case ENOENT:
      return bad_input(fmt::format("{}: no such file; check the path", shown));
    case ENOTDIR:
      return bad_input(fmt::format("{}: a part of the path is not a directory; check the path", shown));
    case EACCES:
      return bad_input(fmt::format("{}: may not be read; check its permissions", shown));
    case ENAMETOOLONG:
      return bad_input(fmt::format("{}: the path is too long for this system", shown));
    default:
      break;
  }
  return resource_error(fmt::format("{}: cannot be opened: {}", shown, std::strerror(error)));
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const std::string shown = printable_path(path);
  if (path.empty()) return bad_input("the model path is empty; give a .gguf file");
  if (path.find('\0') != std::string::npos)
    return bad_input("the model path contains a zero byte; check the path");
  std::unique_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) return open_error(path, errno);
  struct stat st = {};
  if (::fstat(file->fd_, &st) != 0) return open_error(path, errno);
  if (S_ISDIR(st.st_mode)) {
    return bad_input(
        fmt::format("{}: is a directory; name a .gguf file (of a split model, any part)", shown));
  }
  if (!S_ISREG(st.st_mode))
    return bad_input(fmt::format("{}: is not a regular file; name a .gguf file", shown));
  if (st.st_size == 0) {
    return bad_input(fmt::format("{}: is empty; download or convert the model again", shown));
  }
  const auto size = static_cast<size_t>(st.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd_, 0);
  if (map == MAP_FAILED) {
    return resource_error(
        fmt::format("{}: cannot map {} bytes: {}; free memory or raise the limit on address space", shown,
                    size, std::strerror(errno)));
  }
  file->bytes_ = {static_cast<const std::byte*>(map), size};
  file->mtime_ns_ = mtime_ns(st);
  return file;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

Status MappedFile::still_whole() const {
  struct stat st = {};
  if (::fstat(fd_, &st) != 0)
    return resource_error(fmt::format("{}: {}", printable_path(path_), std::strerror(errno)));
  if (static_cast<size_t>(st.st_size) != bytes_.size() || mtime_ns(st) != mtime_ns_) {
    return bad_input(
        fmt::format("{}: was changed while in use ({} bytes when opened, {} now); restart, and replace "
                    "model files by renaming a new one over the old",
                    printable_path(path_), bytes_.size(), st.st_size));
  }
  return {};
}

}  // namespace argon
