// How the rooms (metal/rooms/) put kernels on a Device: by file, entry and function constants. Pipelines are
// made once and kept, and the first error is kept for finish(), so a room neither checks nor waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "metal/device.h"

namespace argon::metal {

class Launcher {
 public:
  explicit Launcher(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Device& device() { return *device_; }
  const Device& device() const { return *device_; }

  // Adds a dispatch. A grid without threadgroups is no work and adds nothing; after an error nothing is added
  // until finish() has told it. `path` is relative to the root ("metal/kernels/rope.metal").
  void dispatch(const char* path, const char* entry, std::span<const Constant> constants,
                std::span<const Argument> arguments, const Grid& grid);
  void dispatch(const char* path, const char* entry, std::initializer_list<Constant> constants,
                std::initializer_list<Argument> arguments, const Grid& grid) {
    dispatch(path, entry, std::span(constants.begin(), constants.size()),
             std::span(arguments.begin(), arguments.size()), grid);
  }

  // Memory of at least `bytes` (16-byte aligned, contents undefined) for the dispatches of one operation: the
  // next operation's scratch may be the same memory, which is safe because dispatches run in order. Null
  // after an error; dispatch() then does nothing, so a room goes on as if nothing had happened.
  void* scratch(size_t bytes);
  template <class T>
  T* scratch_array(int64_t n) {
    return static_cast<T*>(scratch(static_cast<size_t>(n) * sizeof(T)));
  }

  // Bytes copied from the host now, for a kernel that a later dispatch() starts: where they lie. Null after
  // an error.
  const void* stage(const void* host, size_t bytes);

  // Has work been added that no finish() has waited for?
  bool in_flight() const { return in_flight_; }
  // Waits for all work; the first error since the last call, or ok.
  Status finish();
  // Waits for all work; an error stays for finish().
  void wait();
  // Keeps the first error.
  void fail(const Status& s) {
    if (error_.ok()) error_ = s;
  }
  bool failed() const { return !error_.ok(); }

 private:
  struct Key {
    std::string path, entry;
    std::vector<std::pair<uint32_t, uint32_t>> constants;  // index, bits
    auto operator<=>(const Key&) const = default;
  };
  struct View {  // a Key that owns nothing
    const char *path, *entry;
    std::span<const Constant> constants;
  };
  struct Less {
    using is_transparent = void;
    static int compare(const Key& a, const View& b);
    bool operator()(const Key& a, const Key& b) const { return a < b; }
    bool operator()(const Key& a, const View& b) const { return compare(a, b) < 0; }
    bool operator()(const View& a, const Key& b) const { return compare(b, a) > 0; }
  };
  struct Memory {
    std::byte* data = nullptr;
    size_t size = 0, used = 0;
  };
  // `m` with room for `bytes` from its begin; what it was is freed after the work in flight.
  bool reserve(Memory& m, size_t bytes);

  std::unique_ptr<Device> device_;
  std::map<Key, Pipeline, Less> pipelines_;
  Memory scratch_, staging_;
  std::vector<void*> retired_;  // released when no work is in flight
  bool in_flight_ = false;
  Status error_;
};

// The argument for `n` elements at `p`; null stands for an argument that a function constant switches off.
template <class T>
Argument array(const T* p, int64_t n) {
  return p == nullptr ? Argument::none() : Argument::buffer(p, static_cast<size_t>(n) * sizeof(T));
}
inline Argument bytes(const void* p, size_t n) {
  return p == nullptr ? Argument::none() : Argument::buffer(p, n);
}

inline uint32_t blocks_for(int64_t n, int64_t per_block) {
  return static_cast<uint32_t>((n + per_block - 1) / per_block);
}
inline uint32_t u32(int64_t n) { return static_cast<uint32_t>(n); }
// One-dimensional: `threadgroups` of `threads`.
inline Grid grid(int64_t threadgroups, uint32_t threads) {
  return {{u32(threadgroups), 1, 1}, {threads, 1, 1}, {}};
}
inline Grid grid(int64_t x, int64_t y, uint32_t threads) {
  return {{u32(x), u32(y), 1}, {threads, 1, 1}, {}};
}

}  // namespace argon::metal
