#include "metal/executor/group.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace argon::metal {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr unsigned kThreadgroupFlag = 2;  // mem_flags::mem_threadgroup

thread_local GroupRunner* t_runner = nullptr;

std::string at(const char* file, unsigned line) { return std::string(file) + ":" + std::to_string(line); }

std::string triple(const argon_exec::Uint3& v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

}  // namespace

const argon_exec::Hooks& executor_hooks() {
  // A service that found a fault returns like any other, so that nothing it made is lost; then the fiber
  // stops for good.
  static const argon_exec::Hooks hooks = {
      [](unsigned flags, const char* file, unsigned line) {
        t_runner->threadgroup_barrier(flags, file, line);
        t_runner->leave_if_faulty();
      },
      [](unsigned flags, const char* file, unsigned line) {
        t_runner->simdgroup_barrier(flags, file, line);
        t_runner->leave_if_faulty();
      },
      [](const char* operation, const void* value, unsigned bytes, const char* file, unsigned line) {
        const argon_exec::Exchange x = t_runner->exchange(operation, value, bytes, file, line);
        t_runner->leave_if_faulty();
        return x;
      },
      [](unsigned id, unsigned long bytes, unsigned long align, const char* file, unsigned line) {
        void* p = t_runner->threadgroup_variable(id, bytes, align, file, line);
        t_runner->leave_if_faulty();
        return p;
      },
      [](const void* address, unsigned long bytes, unsigned kind, const void* pc) {
        t_runner->access(address, bytes, kind, pc);
        t_runner->leave_if_faulty();
      },
      [](unsigned kind, const char* what, const char* file, unsigned line) {
        t_runner->report(kind, what, file, line);
        t_runner->leave_if_faulty();
      },
  };
  return hooks;
}

GroupRunner::GroupRunner() : shadow_(kMaxThreadgroupBytes) {
  void* p = mmap(nullptr, kMaxThreadgroupBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  arena_ = p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

GroupRunner::~GroupRunner() {
  if (arena_ != nullptr) munmap(arena_, kMaxThreadgroupBytes);
  for (Fiber& f : fibers_) {
    release_fiber(f.stack);
    if (f.stack.bottom != nullptr) munmap(f.stack.bottom - kGuardBytes, kStackBytes + kGuardBytes);
  }
}

void GroupRunner::allocate_fibers(uint32_t n) {
  while (fibers_.size() < n) {
    Fiber f;
    void* p =
        mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    mprotect(p, kGuardBytes, PROT_NONE);
    f.stack.bottom = static_cast<char*>(p) + kGuardBytes;
    f.stack.size = kStackBytes;
    fibers_.push_back(f);
  }
}

// Each fiber serves one thread of group after group; between groups it rests at the end of its loop.
void GroupRunner::fiber_main(transfer_t t) {
  auto* self = static_cast<GroupRunner*>(t.data);
  entered_fiber(self->host_, nullptr);
  self->scheduler_ = t.fctx;
  for (;;) {
    Fiber& f = self->self();
    self->job_->entry->call(f.call);
    self->wait(State::kDone, {});
  }
}

void GroupRunner::resume(uint32_t index) {
  current_ = index;
  Fiber& f = fibers_[index];
  before_resume(host_, f.stack);
  const transfer_t t = jump_fcontext(f.context, this);
  after_resume(host_);
  fibers_[index].context = t.fctx;
}

// Gives the processor back to the scheduler until somebody sets this fiber ready.
void GroupRunner::wait(State state, const Site& site) {
  Fiber& f = self();
  f.state = state;
  f.site = site;
  before_yield(host_, f.stack, false);
  const transfer_t t = jump_fcontext(scheduler_, nullptr);
  entered_fiber(host_, f.stack.fake);
  scheduler_ = t.fctx;
}

void GroupRunner::prepare(const Job& job, uint64_t group) {
  const argon_exec::Uint3& size = job.call.threads_per_threadgroup;
  const argon_exec::Uint3& groups = job.call.threadgroups_per_grid;
  job_ = &job;
  threads_ = size.x * size.y * size.z;
  waiting_ = 0;
  variables_.clear();
  arena_used_ = 0;
  last_range_ = 0;
  const uint32_t simdgroups = (threads_ + argon_exec::kLanes - 1) / argon_exec::kLanes;
  simd_.resize(simdgroups);
  for (uint32_t g = 0; g < simdgroups; ++g) {
    simd_[g].lanes = std::min(argon_exec::kLanes, threads_ - g * argon_exec::kLanes);
    simd_[g].waiting = 0;
  }
  if (job.checked) shadow_.start_group(simdgroups);
  argon_exec::Call call = job.call;
  for (size_t i = 0; i < job.threadgroup_bytes.size(); ++i) {
    call.threadgroup[i] = arena_ + arena_used_;
    variables_.push_back({0xffffffffu, arena_used_, job.threadgroup_bytes[i], 0});
    arena_used_ += (job.threadgroup_bytes[i] + 15u) & ~size_t{15};
  }
  call.threadgroup_position_in_grid = {static_cast<unsigned>(group % groups.x),
                                       static_cast<unsigned>(group / groups.x % groups.y),
                                       static_cast<unsigned>(group / groups.x / groups.y)};
  call.simdgroups_per_threadgroup = simdgroups;
  call.threads_per_simdgroup = argon_exec::kLanes;
  const argon_exec::Uint3 tg = call.threadgroup_position_in_grid;
  for (uint32_t i = 0; i < threads_; ++i) {
    Fiber& f = fibers_[i];
    f.call = call;
    const argon_exec::Uint3 p = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    f.call.thread_position_in_threadgroup = p;
    f.call.thread_position_in_grid = {tg.x * size.x + p.x, tg.y * size.y + p.y, tg.z * size.z + p.z};
    f.call.thread_index_in_threadgroup = i;
    f.call.thread_index_in_simdgroup = i % argon_exec::kLanes;
    f.call.simdgroup_index_in_threadgroup = i / argon_exec::kLanes;
    f.phase = 0;
    f.state = State::kReady;
    if (f.context == nullptr)
      f.context = make_fcontext(f.stack.bottom + f.stack.size, f.stack.size, fiber_main);
  }
}

bool GroupRunner::run(const Job& job, uint64_t group, std::vector<std::vector<uint64_t>>* touched) {
  const argon_exec::Uint3& size = job.call.threads_per_threadgroup;
  allocate_fibers(size.x * size.y * size.z);
  fault_.clear();
  if (arena_ == nullptr || fibers_.size() < size_t{size.x} * size.y * size.z) {
    fault_ = "no memory for the threads of a threadgroup";
    return false;
  }
  t_runner = this;
  touched_ = touched;
  prepare(job, group);
  ++counters_.threadgroups;
  uint32_t done = 0;
  while (done < threads_ && fault_.empty()) {
    bool progress = false;
    done = 0;
    for (uint32_t g = 0; g < simd_.size() && fault_.empty(); ++g) {
      const uint32_t begin = g * argon_exec::kLanes, end = begin + simd_[g].lanes;
      // A simdgroup runs until all its lanes wait for the threadgroup or are done: its exchanges stay in the
      // cache.
      for (bool again = true; again && fault_.empty();) {
        again = false;
        for (uint32_t i = begin; i < end && fault_.empty(); ++i) {
          if (fibers_[i].state != State::kReady) continue;
          resume(i);
          again = progress = true;
        }
      }
      for (uint32_t i = begin; i < end; ++i) done += fibers_[i].state == State::kDone;
    }
    if (done < threads_ && !progress && fault_.empty()) stuck();
  }
  if (fault_.empty()) return true;
  // The fibers stand somewhere inside the kernel: start them afresh next time.
  for (Fiber& f : fibers_) {
    f.context = nullptr;
    release_fiber(f.stack);
  }
  return false;
}

// Nobody can go on: some threads wait at a barrier or simd operation that others never reach.
void GroupRunner::stuck() {
  uint32_t waiting = threads_, other = threads_;
  for (uint32_t i = 0; i < threads_ && waiting == threads_; ++i) {
    if (fibers_[i].state != State::kDone) waiting = i;
  }
  const Fiber& w = fibers_[waiting];
  const bool simd = w.state == State::kAtSimd;
  for (uint32_t i = 0; i < threads_; ++i) {
    if (simd && i / argon_exec::kLanes != waiting / argon_exec::kLanes) continue;
    if (fibers_[i].state != w.state) {
      other = i;
      if (fibers_[i].state == State::kDone) break;
    }
  }
  std::string what = std::string(w.site.operation) + " is not reached by all threads of the " +
                     (simd ? "simdgroup" : "threadgroup");
  if (other < threads_) {
    const Fiber& o = fibers_[other];
    what += ": thread " + triple(o.call.thread_position_in_threadgroup) +
            (o.state == State::kDone
                 ? " has ended"
                 : " waits in " + std::string(o.site.operation) + " at " + at(o.site.file, o.site.line));
  }
  current_ = waiting;
  fault_ = at(w.site.file, w.site.line) + ": error: " + what + thread_name(waiting);
}

std::string GroupRunner::thread_name(uint32_t index) const {
  const argon_exec::Call& c = fibers_[index].call;
  return "; kernel '" + job_->name + "', threadgroup " + triple(c.threadgroup_position_in_grid) +
         ", thread " + triple(c.thread_position_in_threadgroup);
}

void GroupRunner::fail(const std::string& where, const std::string& what) {
  fault_ = where + ": error: " + what + thread_name(current_);
}

void GroupRunner::leave() {
  Fiber& f = self();
  f.state = State::kDone;
  before_yield(host_, f.stack, true);
  jump_fcontext(scheduler_, nullptr);
  __builtin_unreachable();
}

bool GroupRunner::same_site(const Site& expected, const Site& here, const char* who) {
  if (expected.line == here.line &&
      (expected.file == here.file || std::strcmp(expected.file, here.file) == 0) &&
      std::strcmp(expected.operation, here.operation) == 0) {
    return true;
  }
  fail(at(here.file, here.line), std::string(here.operation) + " is not reached by all threads of the " +
                                     who + ": others wait in " + expected.operation + " at " +
                                     at(expected.file, expected.line));
  return false;
}

void GroupRunner::threadgroup_barrier(unsigned flags, const char* file, unsigned line) {
  const Site here{"threadgroup_barrier", file, line};
  if (waiting_ == 0) {
    barrier_site_ = here;
    barrier_orders_ = true;
  } else {
    if (!same_site(barrier_site_, here, "threadgroup")) return;
  }
  barrier_orders_ = barrier_orders_ && (flags & kThreadgroupFlag) != 0;
  if (++waiting_ < threads_) return wait(State::kAtBarrier, here);
  waiting_ = 0;
  ++counters_.barriers;
  if (job_->checked && barrier_orders_) shadow_.threadgroup_barrier();
  for (uint32_t i = 0; i < threads_; ++i) fibers_[i].state = State::kReady;
}

// The last lane to arrive sets the others ready and goes on at once.
void GroupRunner::simd_arrive(const Site& site, Simdgroup& g) {
  if (g.waiting == 0) {
    g.site = site;
  } else {
    if (!same_site(g.site, site, "simdgroup")) return;
  }
  if (++g.waiting < g.lanes) return wait(State::kAtSimd, site);
  g.waiting = 0;
  ++counters_.simd_operations;
  const uint32_t first = current_ / argon_exec::kLanes * argon_exec::kLanes;
  for (uint32_t i = first; i < first + g.lanes; ++i) fibers_[i].state = State::kReady;
}

void GroupRunner::simdgroup_barrier(unsigned flags, const char* file, unsigned line) {
  const uint32_t index = current_ / argon_exec::kLanes;
  Simdgroup& g = simd_[index];
  const bool last = g.waiting + 1 == g.lanes;
  simd_arrive({"simdgroup_barrier", file, line}, g);
  if (last && job_->checked && (flags & kThreadgroupFlag) != 0) shadow_.simdgroup_barrier(index);
}

// Two buffers take turns: nobody can start the operation after the next before all have read this one.
argon_exec::Exchange GroupRunner::exchange(const char* operation, const void* value, unsigned bytes,
                                           const char* file, unsigned line) {
  Simdgroup& g = simd_[current_ / argon_exec::kLanes];
  const uint32_t lane = current_ % argon_exec::kLanes;
  char* slots = g.slots[fibers_[current_].phase];
  fibers_[current_].phase ^= 1;
  std::memcpy(slots + lane * argon_exec::kSlotBytes, value, bytes);
  simd_arrive({operation, file, line}, g);
  return {slots, lane, g.lanes};
}

void* GroupRunner::threadgroup_variable(unsigned id, size_t bytes, size_t align, const char* file,
                                        unsigned line) {
  for (const Variable& v : variables_) {
    if (v.id == id) return arena_ + v.offset;
  }
  const size_t offset = (arena_used_ + align - 1) / align * align;
  if (offset + bytes > kMaxThreadgroupBytes) {
    fail(at(file, line), "threadgroup memory of " + std::to_string(offset + bytes) + " bytes; at most " +
                             std::to_string(kMaxThreadgroupBytes) + " are there");
    return nullptr;
  }
  arena_used_ = offset + bytes;
  std::memset(arena_ + offset, 0xff, bytes);  // NaNs, lest a read before a write look right
  variables_.push_back({id, offset, bytes, line});
  return arena_ + offset;
}

std::string GroupRunner::variable_at(size_t offset) const {
  for (const Variable& v : variables_) {
    if (offset >= v.offset && offset < v.offset + v.bytes) {
      return "byte " + std::to_string(offset - v.offset) +
             (v.line == 0 ? " of a threadgroup argument"
                          : " of the threadgroup variable of line " + std::to_string(v.line));
    }
  }
  return "threadgroup memory outside every variable";
}

void GroupRunner::threadgroup_access(size_t offset, size_t bytes, unsigned kind, const void* pc) {
  const bool write = kind != argon_exec::kRead;
  ++(kind == argon_exec::kAtomic ? counters_.atomics
     : write                     ? counters_.threadgroup_stores
                                 : counters_.threadgroup_loads);
  if (offset + bytes > arena_used_) {
    return fail(job_->library->source_line(pc),
                std::string(write ? "write" : "read") + " outside the threadgroup's variables");
  }
  const ShadowFault f = shadow_.access(offset, bytes, write, kind == argon_exec::kAtomic, current_,
                                       current_ / argon_exec::kLanes);
  if (f.kind == ShadowFault::Kind::kNone) return;
  const std::string where = job_->library->source_line(pc), variable = variable_at(offset);
  if (f.kind == ShadowFault::Kind::kUnwritten)
    return fail(where, "threadgroup memory read before it was written: " + variable);
  const std::string other = f.other == Shadow::kMany
                                ? "other threads"
                                : "thread " + triple(fibers_[f.other].call.thread_position_in_threadgroup);
  return fail(where, "two threads on one threadgroup address with no barrier between: this one " +
                         std::string(write ? "writes " : "reads ") + variable + ", which " + other +
                         (f.other_wrote ? " wrote" : " read"));
}

void GroupRunner::access(const void* address, size_t bytes, unsigned kind, const void* pc) {
  if (!job_->checked || bytes == 0) return;
  const auto p = reinterpret_cast<uintptr_t>(address);
  const bool natural = (kind & argon_exec::kNatural) != 0;
  kind &= ~static_cast<unsigned>(argon_exec::kNatural);
  if (natural && p % bytes != 0) {
    return fail(job_->library->source_line(pc), "misaligned access of " + std::to_string(bytes) + " bytes");
  }
  const auto arena = reinterpret_cast<uintptr_t>(arena_);
  if (p - arena < kMaxThreadgroupBytes) return threadgroup_access(p - arena, bytes, kind, pc);
  const bool write = kind != argon_exec::kRead;
  const std::vector<BoundRange>& ranges = job_->ranges;
  const BoundRange* in = nullptr;
  if (last_range_ < ranges.size() && p >= ranges[last_range_].begin && p < ranges[last_range_].end) {
    in = &ranges[last_range_];
  } else {
    const auto stack = reinterpret_cast<uintptr_t>(self().stack.bottom);
    if (p - stack < kStackBytes || (!write && job_->library->owns(address))) return;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (p >= ranges[i].begin && p < ranges[i].end) {
        in = &ranges[i];
        last_range_ = i;
        break;
      }
    }
  }
  if (in == nullptr || p + bytes > in->end) {
    // Blame the argument whose address is nearest: windows keep arguments far apart.
    const BoundRange* near = in;
    uintptr_t best = ~uintptr_t{0};
    for (const BoundRange& r : ranges) {
      const uintptr_t distance = p < r.begin ? r.begin - p : p - r.end;
      if (in == nullptr && distance < best) best = distance, near = &r;
    }
    std::string what =
        std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes outside any buffer";
    if (near != nullptr) {
      what += ": offset " + std::to_string(static_cast<int64_t>(p - near->begin)) + " of '" + near->name +
              "' (buffer " + std::to_string(near->index) + ", " + std::to_string(near->end - near->begin) +
              " bytes)";
    }
    return fail(job_->library->source_line(pc), what);
  }
  if (write && !in->writable) {
    return fail(job_->library->source_line(pc), "write to '" + std::string(in->name) + "' (buffer " +
                                                    std::to_string(in->index) + "), which is read-only");
  }
  if (kind == argon_exec::kAtomic) {
    ++counters_.atomics;
  } else if (write) {
    ++counters_.device_stores;
    counters_.device_store_bytes += bytes;
  } else {
    ++counters_.device_loads;
    counters_.device_load_bytes += bytes;
  }
  if (touched_ != nullptr && in->watched >= 0) {
    std::vector<uint64_t>& bits = (*touched_)[in->watched];
    for (uintptr_t word = (p - in->begin) / 4; word <= (p + bytes - 1 - in->begin) / 4; ++word)
      bits[word / 64] |= 1ull << (word % 64);
  }
}

void GroupRunner::report(unsigned kind, const char* what, const char* file, unsigned line) {
  const std::string where = at(file, line);
  switch (kind) {
    case argon_exec::kWrap:
      // The exact math works on bit patterns, where wrapping is meant.
      if (std::strncmp(file, "base/", 5) == 0 || std::strstr(file, "/base/") != nullptr) return;
      return fail(where, std::string(what) + " wraps in 32 bits: an offset made from it points elsewhere");
    case argon_exec::kMisaligned:
      return fail(where, "misaligned access of type " + std::string(what));
    case argon_exec::kIndex:
      return fail(where, "index outside the array of type " + std::string(what));
    case argon_exec::kLane:
      return fail(where, std::string(what) + " reads a lane that does not exist");
    default:
      return fail(where, what);
  }
}

}  // namespace argon::metal
