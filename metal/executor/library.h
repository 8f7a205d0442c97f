// A loaded kernel library, and where its code came from.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "metal/executor/abi.h"

namespace argon::metal {

class KernelLibrary {
 public:
  // Takes the build's own library when `path` is one of the product's kernels under the tree this was built
  // from, else compiles into a temporary directory.
  static Result<std::shared_ptr<KernelLibrary>> load(const std::string& root, const std::string& path,
                                                     bool checked);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const argon_exec::Library& table() const { return *table_; }
  const std::string& path() const { return path_; }  // of the .metal file
  const argon_exec::Entry* find(const std::string& entry) const;
  std::string entry_names() const;
  // Whether the address lies in this library's own constants and variables.
  bool owns(const void* address) const { return address >= image_begin_ && address < image_end_; }
  // "file:line" of the code before the return address `pc`, by the line table. Runs addr2line: for error
  // messages only.
  std::string source_line(const void* pc) const;

 private:
  KernelLibrary() = default;
  void find_image();

  void* handle_ = nullptr;
  argon_exec::Library* table_ = nullptr;
  std::string path_, file_;
  const void *image_begin_ = nullptr, *image_end_ = nullptr;
  bool temporary_ = false;
};

}  // namespace argon::metal
