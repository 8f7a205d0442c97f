// metalc [--checked] [--depfile F] --root DIR --out LIB FILE: compiles a .metal file for the executor.
#include <cstdio>
#include <string>

#include "metal/executor/compile.h"

int main(int argc, char** argv) {
  argon::metal::CompileOptions o;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const bool more = i + 1 < argc;
    if (a == "--checked")
      o.checked = true;
    else if (a == "--root" && more)
      o.root = argv[++i];
    else if (a == "--out" && more)
      o.out = argv[++i];
    else if (a == "--depfile" && more)
      o.depfile = argv[++i];
    else
      path = a;
  }
  if (path.empty() || o.root.empty() || o.out.empty()) {
    std::fprintf(stderr, "usage: metalc [--checked] [--depfile F] --root DIR --out LIB FILE\n");
    return 2;
  }
  const argon::Status s = argon::metal::compile_kernels(path, o);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
