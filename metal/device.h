// The only door to Metal: memory, pipelines, dispatches. metal/executor implements it on a CPU (every
// platform), device.mm on a Mac; nothing above this header knows which. One Device is used by one thread at a
// time.
//
// Memory is unified: what allocate() returns is an ordinary pointer that the host reads and writes while no
// dispatch is in flight (after finish()). Any pointer into an allocation or a wrapped range can be bound; the
// device finds the allocation and the offset by itself, so callers keep plain pointers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "metal/counters.h"

namespace argon::metal {

inline constexpr size_t kMaxArguments = 31;
inline constexpr size_t kMaxValueBytes = 128;
inline constexpr uint32_t kMaxThreads = 1024;  // per threadgroup
inline constexpr uint32_t kMaxThreadgroupBytes = 32 * 1024;

struct Size3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Grid {
  Size3 threadgroups;
  Size3 threads;                            // per threadgroup
  std::vector<uint32_t> threadgroup_bytes;  // for [[threadgroup(i)]] arguments, by i
};

// One entry of the argument table, by position: argument i is [[buffer(i)]].
struct Argument {
  const void* pointer = nullptr;
  size_t bytes = 0;  // how much the kernel may touch from `pointer` on
  std::array<std::byte, kMaxValueBytes> inline_value{};
  bool is_value = false;

  static Argument none() { return {}; }  // for an argument that its function constant switches off
  static Argument buffer(const void* p, size_t n) {
    Argument a;
    a.pointer = p;
    a.bytes = n;
    return a;
  }
  template <class T>
  static Argument value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxValueBytes);
    Argument a;
    std::memcpy(a.inline_value.data(), &v, sizeof(T));
    a.bytes = sizeof(T);
    a.is_value = true;
    return a;
  }
};

// The value of a kernel's [[function_constant(index)]]. A pipeline gives all those that its file declares.
struct Constant {
  enum class Type : uint32_t { kBool, kInt, kUint, kFloat };
  uint32_t index;
  Type type;
  uint32_t bits;

  static Constant of(uint32_t i, bool v) { return {i, Type::kBool, v ? 1u : 0u}; }
  static Constant of(uint32_t i, int32_t v) { return {i, Type::kInt, static_cast<uint32_t>(v)}; }
  static Constant of(uint32_t i, uint32_t v) { return {i, Type::kUint, v}; }
};

// An entry point with its function constants fixed. Cheap to copy; made by one device, used with that one.
struct PipelineState;
using Pipeline = std::shared_ptr<const PipelineState>;

struct DeviceOptions {
  std::string root;     // where "metal/kernels/..." is found; empty: the source tree this was built from
  bool checks = false;  // executor: check every access (slow); a Mac ignores it
  int threads = 0;      // executor: 0 is all that this process may use
};

class Device {
 public:
  // kUnsupported when this build or machine has neither a GPU nor the executor.
  static Result<std::unique_ptr<Device>> open(const DeviceOptions& options);
  virtual ~Device() = default;

  virtual std::string description() const = 0;
  virtual bool is_gpu() const = 0;  // false: clock times mean nothing, counters do

  // Zeroed, page-aligned; kResource when there is no memory.
  virtual Result<void*> allocate(size_t bytes) = 0;
  // Lets kernels read (never write) `bytes` at the page-aligned `base`, such as a mapped weight file, without
  // a copy. Ranges may share a page at a seam (the tail of one, the head of the next), no more.
  virtual Status wrap(const void* base, size_t bytes) = 0;
  virtual size_t max_buffer_bytes() const = 0;  // of one allocation or wrapping
  // Bytes from `p` to the end of the allocation or wrapped range that holds it; 0 when none does.
  virtual size_t extent(const void* p) const = 0;
  // Ends an allocation or a wrapping. Waits for work in flight.
  virtual void release(const void* base) = 0;

  // `path` relative to the root, `entry` the kernel's name or host_name. Compiles the file if need be; errors
  // are the compiler's, with file and line, or name the entries that exist.
  virtual Result<Pipeline> pipeline(const std::string& path, const std::string& entry,
                                    std::span<const Constant> constants) = 0;

  // Adds work; dispatches run in order, each seeing all writes of those before. kBadInput, before anything
  // runs, for a wrong number or size of arguments or a grid over the limits. Faults inside the kernel come
  // here or from finish().
  virtual Status dispatch(const Pipeline& pipeline, std::span<const Argument> arguments,
                          const Grid& grid) = 0;
  // Waits for all work; the first fault since the last call.
  virtual Status finish() = 0;

  virtual Counters counters() const = 0;
  virtual void reset_counters() = 0;

  // Executor with checks: notes which bytes each threadgroup of the next dispatches touches in the buffer
  // bound at `base`; locality() reports on the last dispatch. Elsewhere kUnsupported.
  virtual Status watch(std::span<const void* const> bases) = 0;
  virtual Result<Locality> locality(size_t watched, uint32_t window) const = 0;
};

}  // namespace argon::metal
