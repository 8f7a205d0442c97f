// A regular file mapped read-only for as long as the object lives.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace argon {

// The mapping shares the page cache and is never written. If another program shortens the file meanwhile,
// touching the lost pages raises SIGBUS, which kills the process: that cannot be caught portably in library
// code, so replace model files by renaming a new one over the old (as GgufWriter does), never by writing into
// them. still_whole() finds such a change between requests; it cannot close the race.
class MappedFile {
 public:
  // kBadInput: no such file, a directory, not a regular file, empty, not readable. kResource: out of
  // descriptors or address space.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // kBadInput when the file is shorter than the mapping or was written since it was opened.
  Status still_whole() const;

 private:
  MappedFile() = default;

  std::string path_;
  std::span<const std::byte> bytes_;
  int fd_ = -1;
  int64_t mtime_ns_ = 0;
};

}  // namespace argon
