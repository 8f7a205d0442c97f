// A file that is there whole or not at all.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"

namespace argon::cli {

// Bytes go to a temporary file beside `path`, which takes its place with commit(); without it nothing is left
// and what was there stays. A device or pipe (/dev/stdout) is written directly.
class OutputFile {
 public:
  // kBadInput when it cannot be made there.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status write(const void* data, size_t bytes);  // kResource
  Status commit();                               // kResource

 private:
  OutputFile() = default;
  Status failed(const char* what) const;

  std::string path_, temporary_;  // temporary_ is empty when written directly
  int fd_ = -1;
};

}  // namespace argon::cli
