// The only door to Metal: memory, pipelines, dispatches. metal/executor implements it on a CPU (every
// platform), device.mm on a Mac; nothing above this header knows which. One Device is used by one thread at a
// time.
//
// Memory is unified: what allocate() returns is an ordinary pointer that the host reads and writes while no
// dispatch is in flight (after finish()). Any pointer into an allocation or a wrapped range can be bound; the
// device finds the allocation and the offset by itself, so callers keep plain pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "metal/arguments.h"
#include "metal/counters.h"

namespace argon::metal {

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
