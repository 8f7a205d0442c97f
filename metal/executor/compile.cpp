#include "metal/executor/compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "metal/executor/recursion.h"
#include "metal/executor/rewrite.h"
#include "metal/source.h"

extern char** environ;

namespace argon::metal {
namespace {

using Words = std::vector<std::string>;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush()) return resource_error("cannot write '" + path + "': is the disk full?");
  return {};
}

// Runs the compiler in `root`. Its messages become the Status.
Status run_clang(const Words& arguments, const std::string& root, const std::string& log) {
  std::vector<char*> argv;
  Words words = {ARGON_METAL_CLANG};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, root.c_str());
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, ARGON_METAL_CLANG, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return resource_error(std::string("cannot run ") + ARGON_METAL_CLANG + " (" + std::strerror(failed) +
                          "): install clang to compile Metal kernels for the CPU");
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return internal_error("lost the compiler's exit status");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return bad_input(contents(log));
}

Words with(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Words kExec = {
    "-x",
    "c++",
    "-std=c++14",
    "-nostdinc",
    "-nostdinc++",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-Wall",
    "-Werror",
    "-Werror=c++17-extensions",
    "-Wno-unknown-pragmas",
    "-Wno-duplicate-decl-specifier",
    "-Wno-unused-function",
    "-Wno-unused-const-variable",
    "-Wno-psabi",
    "-fno-caret-diagnostics",
    "-gdwarf-4",
    "-gline-tables-only",
    "-Xclang",
    "-fallow-half-arguments-and-returns",
#if defined(__x86_64__)
    "-mavx2",
    "-mfma",
    "-mf16c",
#endif
};

const Words kChecked = {
    "-O1",
    "-DARGON_CHECKED",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-fsanitize=thread,unsigned-integer-overflow,signed-integer-overflow,alignment,bounds",
    "-fsanitize-recover=all",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-instrument-read-before-write"};

const Words kDialect = {"-x",
                        "clcpp",
                        "-cl-std=clc++2021",
                        "-Xclang",
                        "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_generic_address_space,-__opencl_c_"
                        "pipes,-__opencl_c_device_enqueue",
                        "-cl-no-stdinc",
                        "-nostdinc",
                        "-target",
                        "spir64",
                        "-Wall",
                        "-Werror",
                        "-Wno-unknown-pragmas",
                        "-Wno-unused-function",
                        "-Wno-unused-const-variable",
                        "-fno-caret-diagnostics",
                        "-S",
                        "-emit-llvm",
                        "-O0",
                        "-gline-tables-only"};

}  // namespace

Status compile_kernels(const std::string& path, const CompileOptions& o) {
  Result<Source> source = read_source(o.root, path);
  ARGON_RETURN_IF_ERROR(source.status());
  const std::string work = o.out + ".work", log = work + "/log";
  std::error_code ec;
  std::filesystem::create_directories(work, ec);
  if (ec) return resource_error("cannot make the directory '" + work + "': " + ec.message());
  const std::string shim = o.root + "/metal/executor/shim";

  ARGON_RETURN_IF_ERROR(write_file(work + "/flat.metal", source->text));
  ARGON_RETURN_IF_ERROR(
      run_clang({"-E", "-x", "c++", "-std=c++14", "-nostdinc", "-nostdinc++", "-D__METAL__=1",
                 "-D__METAL_VERSION__=310", "-isystem", shim + "/preprocess", "-Wno-unknown-pragmas",
                 "-fno-caret-diagnostics", work + "/flat.metal", "-o", work + "/flat.i"},
                o.root, log));
  Result<Rewritten> text = rewrite_kernels(contents(work + "/flat.i"), path);
  ARGON_RETURN_IF_ERROR(text.status());

  ARGON_RETURN_IF_ERROR(
      write_file(work + "/dialect.clcpp", "#include \"metal/executor/shim/dialect.h\"\n" + text->dialect));
  ARGON_RETURN_IF_ERROR(run_clang(
      with(kDialect, {"-I", o.root, work + "/dialect.clcpp", "-o", work + "/dialect.ll"}), o.root, log));
  ARGON_RETURN_IF_ERROR(check_recursion(contents(work + "/dialect.ll")));

  ARGON_RETURN_IF_ERROR(
      write_file(work + "/exec.cpp", "#include \"metal/executor/shim/exec.h\"\n" + text->exec));
  ARGON_RETURN_IF_ERROR(run_clang(with(with(kExec, o.checked ? kChecked : Words{"-O2"}),
                                       {"-I", o.root, "-c", work + "/exec.cpp", "-o", work + "/exec.o"}),
                                  o.root, log));
  ARGON_RETURN_IF_ERROR(
      run_clang(with(kExec, {"-O2", "-fno-builtin", o.checked ? "-DARGON_CHECKED" : "-DARGON_FAST", "-I",
                             o.root, "-c", "metal/executor/glue.cpp", "-o", work + "/glue.o"}),
                o.root, log));
  const std::string linked = work + "/linked.so";
  ARGON_RETURN_IF_ERROR(run_clang({"-shared", "-nostdlib", "-Wl,-z,defs", "-Wl,--as-needed", work + "/exec.o",
                                   work + "/glue.o", "-lm", "-lgcc", "-o", linked},
                                  o.root, log));
  std::filesystem::rename(linked, o.out, ec);
  if (ec) return resource_error("cannot write '" + o.out + "': " + ec.message());

  if (!o.depfile.empty()) {
    std::string dep = o.out + ":";
    for (const std::string& f : source->files) dep += " " + o.root + "/" + f;
    ARGON_RETURN_IF_ERROR(write_file(o.depfile, dep + "\n"));
  }
  return {};
}

}  // namespace argon::metal
