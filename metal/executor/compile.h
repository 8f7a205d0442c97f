// A .metal file to a library that the executor loads: read (source.h), preprocess, rewrite (rewrite.h), the
// dialect pass, then clang. Called by the build for the product's kernels and at run time for any other file.
#pragma once

#include <string>

#include "base/status.h"

namespace argon::metal {

struct CompileOptions {
  std::string root;      // the repository: include paths and file names are relative to it
  std::string out;       // the library to write; intermediate files go to `out`.work
  std::string depfile;   // Makefile dependencies, or empty
  bool checked = false;  // every access instrumented, slower by one to two orders
};

// Messages are the compiler's, each "file:line: error: ..." in terms of the .metal file.
Status compile_kernels(const std::string& path, const CompileOptions& options);

}  // namespace argon::metal
