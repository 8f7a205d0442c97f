// Memory of a backend: what the model asks for, places and moves. A raw pointer is the handle of device
// memory everywhere: a backend whose memory the host cannot see translates pointers of its own allocations.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "ops/arguments.h"
#include "ops/memory_needs.h"

namespace argon::ops {

// From one expert to the next in memory of allocate_experts.
inline size_t expert_room(const ExpertMatrix& like) {
  return (static_cast<size_t>(like.first.rows) * like.first.row_bytes + 255) / 256 * 256;
}

// Part of a backend's memory that is to be copied to the host.
struct ReadPart {
  void* to_host;
  const void* from;
  size_t bytes;
};

class BackendMemory {
 public:
  virtual ~BackendMemory() = default;

  // Zeroed memory, 64-byte aligned; pages are taken as they are touched where the machine can do that.
  // kResource when there is none, saying how much was wanted.
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void free(void* p, size_t bytes) = 0;

  // Makes host memory that stays as it is while the backend lives (weights) readable by operations: the
  // pointer to use.
  virtual Result<const void*> place(const void* host, size_t bytes) = 0;
  // Said once per model, before its weights are placed; then place_experts comes for each of needs.layers in
  // order. kResource when it cannot be had, saying what would do.
  virtual Status prepare(const MemoryNeeds&) { return {}; }
  // Places all expert matrices of a layer, which may be views of one tensor: replaces their data pointers by
  // those to use in run_experts.
  virtual Status place_experts(std::span<ExpertMatrix* const> of_a_layer);
  // A table of which a pass reads few rows: the pointer to use, or null when its rows are rather handed over
  // one by one, so that the table need not be in this backend's memory.
  virtual Result<const void*> place_table(const void* host, size_t bytes) { return place(host, bytes); }

  // Room for `count` experts of the shape of `like`, each to be filled by put_expert (in order with the
  // operations; `host` is memory that could be placed, or of allocate_host as for write). `lasting`: what
  // they hold changes only between a finish and the next operation. Freed by free(first.data, experts *
  // expert_bytes).
  virtual Result<ExpertMatrix> allocate_experts(const ExpertMatrix& like, int64_t count, bool lasting);
  virtual void put_expert(const ExpertMatrix& to, int64_t at, const void* host);

  // Moves bytes in order with the operations: from host memory, to host memory (waits until they are there),
  // within the backend's memory, and zeros.
  virtual void write(void* to, const void* from_host, size_t bytes) = 0;
  virtual void read(void* to_host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void zero(void* to, size_t bytes) = 0;

  // Host memory that write and read_begin reach fastest; what it holds must stay until the write is done.
  virtual Result<void*> allocate_host(size_t bytes);
  virtual void free_host(void* p, size_t bytes);
  // Starts reads, in order with the operations, into memory of allocate_host; they are done after read_end.
  // One set at a time.
  virtual void read_begin(std::span<const ReadPart> parts) {
    for (const ReadPart& p : parts) read(p.to_host, p.from, p.bytes);
  }
  virtual void read_end() {}
};

}  // namespace argon::ops
