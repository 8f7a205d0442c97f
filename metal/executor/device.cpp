// The CPU implementation of metal/device.h: memory, argument checks, and the spread of threadgroups over
// threads.
#include "metal/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/fp_env.h"
#include "base/thread_pool.h"
#include "metal/executor/group.h"
#include "metal/executor/library.h"

namespace argon::metal {

struct PipelineState {
  std::shared_ptr<KernelLibrary> library;
  const argon_exec::Entry* entry;
  std::vector<Constant> constants;
  std::string name;
};

namespace {

// With checks on, each argument of a dispatch is mapped at the start of its own window, so wide that no
// 32-bit index leads from one into the next.
constexpr size_t kWindowBytes = size_t{1} << 34;

size_t page_round(size_t n) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (n + page - 1) / page * page;
}

uint64_t volume(const Size3& s) { return uint64_t{s.x} * s.y * s.z; }

std::string text_of(const Size3& s) {
  return "(" + std::to_string(s.x) + "," + std::to_string(s.y) + "," + std::to_string(s.z) + ")";
}

class Executor final : public Device {
 public:
  explicit Executor(const DeviceOptions& o)
      : options_(o),
        pool_(o.threads > 0 ? o.threads : ThreadPool::available_processors()),
        runners_(pool_.size()) {
    if (!options_.checks) return;
    void* p = mmap(nullptr, kWindowBytes * kMaxArguments, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) windows_ = static_cast<char*>(p);
  }
  ~Executor() override {
    for (const auto& [base, a] : memory_) free_memory(base, a);
    if (windows_ != nullptr) munmap(windows_, kWindowBytes * kMaxArguments);
  }

  std::string description() const override {
    return "Metal kernels on the CPU, " + std::to_string(pool_.size()) + " threads" +
           (options_.checks ? ", every access checked" : "");
  }
  bool is_gpu() const override { return false; }

  Result<void*> allocate(size_t bytes) override {
    Memory a;
    a.bytes = bytes;
    a.mapped = page_round(std::max<size_t>(bytes, 1));
    a.file = options_.checks ? memfd_create("argon-metal", MFD_CLOEXEC) : -1;
    if (a.file >= 0 && ftruncate(a.file, static_cast<off_t>(a.mapped)) != 0) {
      close(a.file);
      return resource_error("no memory for a buffer of " + std::to_string(bytes) + " bytes");
    }
    void* p = mmap(nullptr, a.mapped, PROT_READ | PROT_WRITE,
                   a.file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, a.file, 0);
    if (p == MAP_FAILED) {
      if (a.file >= 0) close(a.file);
      return resource_error("no memory for a buffer of " + std::to_string(bytes) + " bytes");
    }
    memory_[reinterpret_cast<uintptr_t>(p)] = a;
    return p;
  }

  Status wrap(const void* base, size_t bytes) override {
    const auto p = reinterpret_cast<uintptr_t>(base);
    if (base == nullptr || bytes == 0 || p % page_round(1) != 0) {
      return bad_input("only page-aligned memory of at least one byte can be wrapped");
    }
    Memory a;
    a.bytes = bytes;
    a.wrapped = true;
    memory_[p] = a;
    return {};
  }

  size_t max_buffer_bytes() const override { return size_t{1} << 46; }

  size_t extent(const void* p) const override {
    const auto it = holding(p);
    return it == memory_.end() ? 0 : it->first + it->second.bytes - reinterpret_cast<uintptr_t>(p);
  }

  void release(const void* base) override {
    const auto it = memory_.find(reinterpret_cast<uintptr_t>(base));
    if (it == memory_.end()) return;
    free_memory(it->first, it->second);
    memory_.erase(it);
  }

  Result<Pipeline> pipeline(const std::string& path, const std::string& entry,
                            std::span<const Constant> constants) override {
    std::shared_ptr<KernelLibrary>& lib = libraries_[path];
    if (lib == nullptr) {
      Result<std::shared_ptr<KernelLibrary>> loaded = KernelLibrary::load(
          options_.root.empty() ? ARGON_SOURCE_DIR : options_.root, path, options_.checks);
      ARGON_RETURN_IF_ERROR(loaded.status());
      lib = *loaded;
    }
    const argon_exec::Entry* e = lib->find(entry);
    if (e == nullptr) {
      return bad_input(path + ":1: error: no kernel '" + entry +
                       "' in this file; it has: " + lib->entry_names());
    }
    for (const Constant& c : constants) ARGON_RETURN_IF_ERROR(check_constant(*lib, c));
    ARGON_RETURN_IF_ERROR(check_all_given(*lib, constants));
    auto state = std::make_shared<PipelineState>();
    state->library = lib;
    state->entry = e;
    state->constants.assign(constants.begin(), constants.end());
    state->name = entry;
    return Pipeline(state);
  }

  Status dispatch(const Pipeline& pipeline, std::span<const Argument> arguments, const Grid& grid) override {
    if (pipeline == nullptr) return bad_input("dispatch without a pipeline");
    for (const Constant& c : pipeline->constants) set_constant(*pipeline->library, c);
    Job job;
    job.entry = pipeline->entry;
    job.library = pipeline->library.get();
    job.call = {};
    job.name = pipeline->name;
    job.checked = options_.checks;
    ARGON_RETURN_IF_ERROR(check_grid(*pipeline->entry, grid, job));
    ARGON_RETURN_IF_ERROR(bind(*pipeline->entry, arguments, job));
    const ScopedFlushSubnormals flush;
    const Status s = run(job, volume(grid.threadgroups));
    close_windows();
    if (!s.ok() && fault_.ok()) fault_ = s;
    return s;
  }

  Status finish() override {
    Status s = fault_;
    fault_ = {};
    return s;
  }

  Counters counters() const override { return counters_; }
  void reset_counters() override { counters_ = {}; }

  Status watch(std::span<const void* const> bases) override {
    if (!options_.checks) return unsupported("watching accesses needs a device opened with checks");
    watched_.clear();
    for (const void* b : bases) watched_.push_back(reinterpret_cast<uintptr_t>(b));
    return {};
  }

  Result<Locality> locality(size_t watched, uint32_t window) const override {
    if (touched_.empty() || watched >= watched_.size() || window == 0) {
      return bad_input("no watched dispatch has run, or no such buffer or window");
    }
    Locality l;
    l.window = window;
    for (size_t first = 0; first < touched_.size(); first += window) {
      std::vector<uint64_t> all(touched_[first][watched].size());
      for (size_t g = first; g < std::min(touched_.size(), first + window); ++g) {
        for (size_t k = 0; k < all.size(); ++k) all[k] |= touched_[g][watched][k];
      }
      uint64_t bytes = 0;
      for (uint64_t w : all) bytes += 4ull * static_cast<uint64_t>(__builtin_popcountll(w));
      ++l.windows;
      l.sum_bytes += bytes;
      l.max_bytes = std::max(l.max_bytes, bytes);
    }
    l.mean_bytes = static_cast<double>(l.sum_bytes) / static_cast<double>(l.windows);
    return l;
  }

 private:
  struct Memory {
    size_t bytes = 0, mapped = 0;
    int file = -1;
    bool wrapped = false;
  };

  static void free_memory(uintptr_t base, const Memory& a) {
    if (a.wrapped) return;
    munmap(reinterpret_cast<void*>(base), a.mapped);
    if (a.file >= 0) close(a.file);
  }

  static const argon_exec::FunctionConstant* find_constant(const KernelLibrary& lib, uint32_t index) {
    for (const argon_exec::FunctionConstant* f = lib.table().constants; f != nullptr; f = f->next) {
      if (f->index == index) return f;
    }
    return nullptr;
  }
  static Status check_constant(const KernelLibrary& lib, const Constant& c) {
    const argon_exec::FunctionConstant* f = find_constant(lib, c.index);
    if (f == nullptr)
      return bad_input(lib.path() + ":1: error: this file has no function constant " +
                       std::to_string(c.index));
    const bool fits = (f->kind == argon_exec::kBool) == (c.type == Constant::Type::kBool);
    if (!fits)
      return bad_input(lib.path() + ":1: error: function constant '" + f->name +
                       "' has another type than the value given");
    return {};
  }
  static Status check_all_given(const KernelLibrary& lib, std::span<const Constant> constants) {
    for (const argon_exec::FunctionConstant* f = lib.table().constants; f != nullptr; f = f->next) {
      const bool given = std::any_of(constants.begin(), constants.end(),
                                     [&](const Constant& c) { return c.index == f->index; });
      if (!given)
        return bad_input(lib.path() + ":1: error: function constant " + std::to_string(f->index) + " ('" +
                         f->name + "') was not given a value");
    }
    return {};
  }
  static void set_constant(const KernelLibrary& lib, const Constant& c) {
    const argon_exec::FunctionConstant* f = find_constant(lib, c.index);
    std::memcpy(f->value, &c.bits, std::min<size_t>(f->bytes, sizeof c.bits));
  }

  static Status error_at(const argon_exec::Entry& e, const std::string& what) {
    return bad_input(std::string(e.file) + ":" + std::to_string(e.line) + ": error: kernel '" + e.name +
                     "': " + what);
  }

  static Status check_grid(const argon_exec::Entry& e, const Grid& grid, Job& job) {
    const uint64_t threads = volume(grid.threads), limit = e.max_threads != 0 ? e.max_threads : kMaxThreads;
    if (threads == 0 || threads > limit || grid.threads.x > kMaxThreads || grid.threads.y > kMaxThreads) {
      return error_at(e, "threadgroups of " + text_of(grid.threads) + " threads; wanted 1 to " +
                             std::to_string(limit) + " in all");
    }
    const uint64_t x = uint64_t{grid.threadgroups.x} * grid.threads.x,
                   y = uint64_t{grid.threadgroups.y} * grid.threads.y,
                   z = uint64_t{grid.threadgroups.z} * grid.threads.z;
    if (volume(grid.threadgroups) == 0 || std::max({x, y, z}) > 0xffffffffull) {
      return error_at(e, "a grid of " + text_of(grid.threadgroups) + " threadgroups of " +
                             text_of(grid.threads) +
                             " threads; each dimension must have 1 to 2^32-1 threads");
    }
    uint64_t bytes = 0;
    for (uint32_t b : grid.threadgroup_bytes) bytes += (b + 15ull) & ~15ull;
    if (bytes > kMaxThreadgroupBytes || grid.threadgroup_bytes.size() > argon_exec::kMaxThreadgroupArgs) {
      return error_at(e, std::to_string(bytes) + " bytes of threadgroup memory; at most " +
                             std::to_string(kMaxThreadgroupBytes) + " are there");
    }
    argon_exec::Call& c = job.call;
    c.threads_per_threadgroup = {grid.threads.x, grid.threads.y, grid.threads.z};
    c.threadgroups_per_grid = {grid.threadgroups.x, grid.threadgroups.y, grid.threadgroups.z};
    c.threads_per_grid = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
    job.threadgroup_bytes = grid.threadgroup_bytes;
    return {};
  }

  // The allocation that holds `pointer`, or end.
  std::map<uintptr_t, Memory>::const_iterator holding(const void* pointer) const {
    const auto p = reinterpret_cast<uintptr_t>(pointer);
    auto it = memory_.upper_bound(p);
    if (it == memory_.begin()) return memory_.end();
    --it;
    return p < it->first + std::max<size_t>(it->second.bytes, 1) ? it : memory_.end();
  }

  Status bind(const argon_exec::Entry& e, std::span<const Argument> arguments, Job& job) {
    size_t wanted = 0;
    for (unsigned i = 0; i < e.n_params; ++i) {
      if (e.params[i].kind != argon_exec::kThreadgroupPointer)
        wanted = std::max<size_t>(wanted, e.params[i].index + 1);
    }
    if (arguments.size() != wanted) {
      return error_at(e, "got " + std::to_string(arguments.size()) + " arguments, wanted " +
                             std::to_string(wanted) + " (" + names(e) + ")");
    }
    job.ranges.reserve(e.n_params);
    for (unsigned i = 0; i < e.n_params; ++i) {
      const argon_exec::Param& p = e.params[i];
      if (p.condition != nullptr && !*p.condition) continue;
      const std::string what = "argument '" + std::string(p.name) + "' [[" +
                               (p.kind == argon_exec::kThreadgroupPointer ? "threadgroup(" : "buffer(") +
                               std::to_string(p.index) + ")]]";
      if (p.kind == argon_exec::kThreadgroupPointer) {
        const size_t given = p.index < job.threadgroup_bytes.size() ? job.threadgroup_bytes[p.index] : 0;
        if (given < p.bytes)
          return error_at(e, what + " has " + std::to_string(given) + " bytes, wanted at least " +
                                 std::to_string(p.bytes));
        continue;
      }
      const Argument& a = arguments[p.index];
      if (!a.is_value && a.pointer == nullptr) return error_at(e, what + " is missing");
      if (a.bytes < p.bytes) {
        return error_at(e, what + " has " + std::to_string(a.bytes) + " bytes, wanted at least " +
                               std::to_string(p.bytes));
      }
      ARGON_RETURN_IF_ERROR(bind_one(e, p, a, what, job));
    }
    return {};
  }

  Status bind_one(const argon_exec::Entry& e, const argon_exec::Param& p, const Argument& a,
                  const std::string& what, Job& job) {
    void* address = nullptr;
    bool writable = p.writable;
    if (a.is_value) {
      if (p.writable) return error_at(e, what + " is written by the kernel; a value cannot be bound to it");
      values_[p.index] = a.inline_value;
      address = values_[p.index].data();
      writable = false;
    } else {
      const auto it = holding(a.pointer);
      if (it == memory_.end()) return error_at(e, what + " points into no buffer of this device");
      const size_t offset = reinterpret_cast<uintptr_t>(a.pointer) - it->first;
      if (offset + a.bytes > it->second.bytes) {
        return error_at(e, what + " ends " + std::to_string(offset + a.bytes - it->second.bytes) +
                               " bytes behind its buffer of " + std::to_string(it->second.bytes));
      }
      if (p.writable && it->second.wrapped)
        return error_at(e, what + " is written by the kernel, but the memory is wrapped (read-only)");
      address = window(p.index, it->second, offset, a);
    }
    if (reinterpret_cast<uintptr_t>(address) % p.align != 0) {
      return error_at(e, what + " is not aligned to " + std::to_string(p.align) + " bytes");
    }
    job.call.buffer[p.index] = address;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    BoundRange r{begin, begin + a.bytes, p.name, p.index, writable, -1};
    const auto w = std::find(watched_.begin(), watched_.end(), reinterpret_cast<uintptr_t>(a.pointer));
    if (!a.is_value && w != watched_.end()) r.watched = static_cast<int>(w - watched_.begin());
    job.ranges.push_back(r);
    return {};
  }

  // Where the kernel sees the argument: its own address, or with checks a second mapping in the argument's
  // window.
  void* window(uint32_t index, const Memory& m, size_t offset, const Argument& a) {
    void* own = const_cast<void*>(a.pointer);
    const size_t page = page_round(1), inside = offset % page, length = page_round(inside + a.bytes);
    if (windows_ == nullptr || m.file < 0 || length > kWindowBytes / 2) return own;
    char* at = windows_ + kWindowBytes * index;
    void* p = mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m.file,
                   static_cast<off_t>(offset - inside));
    if (p == MAP_FAILED) return own;
    open_windows_.push_back({at, length});
    return at + inside;
  }
  void close_windows() {
    for (const auto& [at, length] : open_windows_) {
      mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    open_windows_.clear();
  }

  static std::string names(const argon_exec::Entry& e) {
    std::string s;
    for (unsigned i = 0; i < e.n_params; ++i) s += (i == 0 ? "" : ", ") + std::string(e.params[i].name);
    return s;
  }

  Status run(const Job& job, uint64_t groups) {
    touched_.clear();
    if (!watched_.empty()) touched_.resize(groups);
    std::atomic<uint64_t> failed{groups};  // the lowest threadgroup that did something wrong
    std::mutex m;
    std::string message;
    std::atomic<size_t> next_runner{0};
    pool_.run(pool_.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        GroupRunner& runner = runners_[next_runner.fetch_add(1)];
        for (uint64_t g = next_group_.fetch_add(1); g < failed; g = next_group_.fetch_add(1)) {
          std::vector<std::vector<uint64_t>>* touched = nullptr;
          if (!watched_.empty()) {
            touched = &touched_[g];
            touched->resize(watched_.size());
            for (const BoundRange& r : job.ranges) {
              if (r.watched >= 0) (*touched)[r.watched].assign((r.end - r.begin) / 256 + 1, 0);
            }
          }
          if (runner.run(job, g, touched)) continue;
          const std::lock_guard<std::mutex> lock(m);
          if (g < failed) {
            failed = g;
            message = runner.fault();
          }
        }
      }
    });
    next_group_ = 0;
    for (GroupRunner& r : runners_) add(r.counters());
    return failed < groups ? bad_input(message) : Status();
  }

  void add(Counters& c) {
    Counters& t = counters_;
    t.device_loads += c.device_loads, t.device_stores += c.device_stores;
    t.device_load_bytes += c.device_load_bytes, t.device_store_bytes += c.device_store_bytes;
    t.threadgroup_loads += c.threadgroup_loads, t.threadgroup_stores += c.threadgroup_stores,
        t.atomics += c.atomics;
    t.barriers += c.barriers, t.simd_operations += c.simd_operations, t.threadgroups += c.threadgroups;
    c = {};
  }

  const DeviceOptions options_;
  ThreadPool pool_;
  std::vector<GroupRunner> runners_;
  std::atomic<uint64_t> next_group_{0};
  std::map<uintptr_t, Memory> memory_;
  std::map<std::string, std::shared_ptr<KernelLibrary>> libraries_;
  alignas(16) std::array<std::array<std::byte, kMaxValueBytes>, kMaxArguments> values_{};
  char* windows_ = nullptr;
  std::vector<std::pair<char*, size_t>> open_windows_;
  std::vector<uintptr_t> watched_;
  std::vector<std::vector<std::vector<uint64_t>>> touched_;  // [threadgroup][watched] bit per 4 bytes
  Counters counters_;
  Status fault_;
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions& options) {
  return std::unique_ptr<Device>(new Executor(options));
}

}  // namespace argon::metal
