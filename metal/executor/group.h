// Runs one threadgroup at a time on one thread of the CPU: every thread of the group is a fiber that switches
// at barriers and simd operations. Finds barriers and simd operations that not all reach; with checks on,
// every bad access.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "metal/device.h"
#include "metal/executor/abi.h"
#include "metal/executor/fiber_sanitizer.h"
#include "metal/executor/library.h"
#include "metal/executor/shadow.h"

namespace argon::metal {

// The services that kernel libraries call; they act on the runner of the calling thread.
const argon_exec::Hooks& executor_hooks();

// What a kernel may touch in a dispatch.
struct BoundRange {
  uintptr_t begin, end;
  const char* name;
  uint32_t index;
  bool writable;
  int watched = -1;  // index of the bitmap, or -1
};

struct Job {
  const argon_exec::Entry* entry;
  const KernelLibrary* library;
  argon_exec::Call call;  // arguments and sizes; positions are filled per thread
  std::vector<BoundRange> ranges;
  std::vector<uint32_t> threadgroup_bytes;
  std::string name;
  bool checked;
};

class GroupRunner {
 public:
  GroupRunner();
  ~GroupRunner();
  GroupRunner(const GroupRunner&) = delete;
  GroupRunner& operator=(const GroupRunner&) = delete;

  // Runs threadgroup `group` (x fastest). `touched`: one bitmap per watched buffer, a bit per 4 bytes, or
  // empty. False when the kernel did something wrong: see fault().
  bool run(const Job& job, uint64_t group, std::vector<std::vector<uint64_t>>* touched);
  const std::string& fault() const { return fault_; }
  Counters& counters() { return counters_; }

  // The services, called from fibers.
  void threadgroup_barrier(unsigned flags, const char* file, unsigned line);
  void simdgroup_barrier(unsigned flags, const char* file, unsigned line);
  argon_exec::Exchange exchange(const char* operation, const void* value, unsigned bytes, const char* file,
                                unsigned line);
  void* threadgroup_variable(unsigned id, size_t bytes, size_t align, const char* file, unsigned line);
  void access(const void* address, size_t bytes, unsigned kind, const void* pc);
  void report(unsigned kind, const char* what, const char* file, unsigned line);

  // Called from a fiber: does not come back when the fiber has done something wrong.
  void leave_if_faulty() {
    if (!fault_.empty()) leave();
  }

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kAtSimd, kDone };
  struct Site {
    const char* operation = nullptr;
    const char* file = nullptr;
    unsigned line = 0;
  };
  struct Fiber {
    boost::context::detail::fcontext_t context = nullptr;
    argon_exec::Call call;
    Site site;
    State state = State::kDone;
    uint32_t phase = 0;  // which of the two exchange buffers the next simd operation uses
    FiberStack stack;
  };
  struct Simdgroup {
    alignas(16) char slots[2][argon_exec::kLanes * argon_exec::kSlotBytes];
    uint32_t lanes = 0, waiting = 0;
    Site site;
  };
  struct Variable {
    unsigned id;
    size_t offset, bytes;
    unsigned line;
  };

  static void fiber_main(boost::context::detail::transfer_t t);
  void prepare(const Job& job, uint64_t group);
  void resume(uint32_t index);
  void wait(State state, const Site& site);
  bool same_site(const Site& expected, const Site& here, const char* who);
  void simd_arrive(const Site& site, Simdgroup& g);
  void stuck();
  void threadgroup_access(size_t offset, size_t bytes, unsigned kind, const void* pc);
  void fail(const std::string& where, const std::string& what);
  [[noreturn]] void leave();
  std::string thread_name(uint32_t index) const;
  std::string variable_at(size_t offset) const;
  Fiber& self() { return fibers_[current_]; }
  void allocate_fibers(uint32_t n);

  const Job* job_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Simdgroup> simd_;
  std::vector<Variable> variables_;
  char* arena_ = nullptr;  // the threadgroup's memory
  size_t arena_used_ = 0;
  uint32_t threads_ = 0, current_ = 0, waiting_ = 0;
  bool barrier_orders_ = false;
  Site barrier_site_;
  size_t last_range_ = 0;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  Shadow shadow_;
  std::vector<std::vector<uint64_t>>* touched_ = nullptr;
  std::string fault_;
  Counters counters_;
  HostStack host_;
};

}  // namespace argon::metal
