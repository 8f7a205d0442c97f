#include "metal/executor/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "metal/executor/compile.h"
#include "metal/executor/group.h"

namespace argon::metal {
namespace {

namespace fs = std::filesystem;

// metal/kernels/gdn_prompt.metal -> metal_kernels_gdn_prompt, as metal/CMakeLists.txt names the build's
// libraries.
std::string flat_name(const std::string& path) {
  std::string s = path.substr(0, path.rfind('.'));
  std::replace(s.begin(), s.end(), '/', '_');
  return s;
}

}  // namespace

Result<std::shared_ptr<KernelLibrary>> KernelLibrary::load(const std::string& root, const std::string& path,
                                                           bool checked) {
  std::shared_ptr<KernelLibrary> lib(new KernelLibrary);
  lib->path_ = path;
  std::error_code ec;
  const std::string built =
      std::string(ARGON_METAL_LIBRARY_DIR) + "/" + flat_name(path) + (checked ? ".checked.so" : ".fast.so");
  if (fs::equivalent(root, ARGON_SOURCE_DIR, ec) && fs::exists(built, ec)) {
    lib->file_ = built;
  } else {
    std::string dir = fs::temp_directory_path(ec).string() + "/argon-metal-XXXXXX";
    if (mkdtemp(dir.data()) == nullptr)
      return resource_error("cannot make a directory in '" + dir + "' to compile kernels in");
    lib->temporary_ = true;
    lib->file_ = dir + "/" + flat_name(path) + ".so";
    CompileOptions o;
    o.root = root;
    o.out = lib->file_;
    o.checked = checked;
    ARGON_RETURN_IF_ERROR(compile_kernels(path, o));
  }
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
    return unsupported(
        "Metal kernels on the CPU need AVX2, FMA and F16C, which this processor lacks; use --backend cpu");
  }
#endif
  lib->handle_ = dlopen(lib->file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (lib->handle_ == nullptr)
    return internal_error(std::string("cannot load compiled kernels: ") + dlerror());
  const auto bind = reinterpret_cast<argon_exec::Library* (*)(const argon_exec::Hooks*)>(
      dlsym(lib->handle_, "argon_exec_bind"));
  if (bind == nullptr) return internal_error("'" + lib->file_ + "' is no kernel library");
  lib->table_ = bind(&executor_hooks());
  if (lib->table_->abi != argon_exec::kAbi || lib->table_->checked != checked) {
    return internal_error("'" + lib->file_ + "' was made by another build of the executor; build again");
  }
  lib->find_image();
  return lib;
}

KernelLibrary::~KernelLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
  std::error_code ec;
  if (temporary_) fs::remove_all(fs::path(file_).parent_path(), ec);
}

void KernelLibrary::find_image() {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return;
  struct Search {
    uintptr_t base, end;
  } search{map->l_addr, map->l_addr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        if (info->dlpi_addr != s->base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            s->end = std::max<uintptr_t>(s->end,
                                         s->base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
          }
        }
        return 1;
      },
      &search);
  image_begin_ = reinterpret_cast<const void*>(search.base);
  image_end_ = reinterpret_cast<const void*>(search.end);
}

const argon_exec::Entry* KernelLibrary::find(const std::string& entry) const {
  for (const argon_exec::Entry* e = table_->entries; e != nullptr; e = e->next) {
    if (entry == e->name) return e;
  }
  return nullptr;
}

std::string KernelLibrary::entry_names() const {
  std::string s;
  for (const argon_exec::Entry* e = table_->entries; e != nullptr; e = e->next) {
    s = std::string(e->name) + (s.empty() ? "" : ", ") + s;
  }
  return s;
}

std::string KernelLibrary::source_line(const void* pc) const {
  const auto offset = static_cast<unsigned long>(reinterpret_cast<uintptr_t>(pc) -
                                                 reinterpret_cast<uintptr_t>(image_begin_) - 1);
  char command[4096];
  std::snprintf(command, sizeof command, "addr2line -e '%s' 0x%lx 2>/dev/null", file_.c_str(), offset);
  std::string line;
  if (FILE* p = popen(command, "r")) {
    std::array<char, 1024> buffer{};
    if (std::fgets(buffer.data(), static_cast<int>(buffer.size()), p) != nullptr) line = buffer.data();
    pclose(p);
  }
  line = line.substr(0, line.find_first_of(" \n"));
  if (line.empty() || line[0] == '?') return path_ + ":0 (no addr2line)";
  if (const size_t at = line.find("/./"); at != std::string::npos) line = line.substr(at + 3);
  // The compiler writes names of the kernels' root in front; messages are relative to it.
  for (const std::string& prefix : {std::string(ARGON_SOURCE_DIR) + "/", std::string("./")}) {
    if (line.rfind(prefix, 0) == 0) line = line.substr(prefix.size());
  }
  return line;
}

}  // namespace argon::metal
