// What the model asks of a machine: memory, and one call per operation. The CPU (cpu/cpu_backend.h) is one
// implementation; a GPU is another. A raw pointer is the handle of device memory everywhere: a backend whose
// memory the host cannot see translates pointers of its own allocations.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;

  // Tokens from which on a pass gets no faster, and the bytes of memory its working arrays are taken from (0:
  // the machine's).
  virtual int64_t best_pass() const { return 512; }
  virtual uint64_t memory_size() const { return 0; }

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
  // While on, operations are to be expected at intervals: threads need not go to sleep between them.
  virtual void stay_ready(bool) {}
  // Starts all that has been asked for; waits for nothing.
  virtual void submit() {}

  // Waits for everything so far; the first error since the last call (a device lost, a kernel refused), or
  // ok.
  virtual Status finish() = 0;

  // One call per operation: the arguments are each room's contract. Calls take effect in order.
  virtual void run(const QuantizeArgs&) = 0;
  virtual void run(const MatmulArgs&) = 0;
  virtual void run(const MatmulGroupedArgs&) = 0;
  virtual void run(const RmsNormArgs&) = 0;
  virtual void run(const RopeArgs&) = 0;
  virtual void run(const KvStoreArgs&) = 0;
  virtual void run(const MoeCombineArgs&) = 0;
  virtual void run(const SwigluArgs&) = 0;
  virtual void run(const EmbedArgs&) = 0;
  virtual void run(const QsaAttentionArgs&) = 0;
  virtual void run(const GrNormArgs&) = 0;
  virtual void run(const GrApplyArgs&) = 0;
  virtual void run(const GrGateArgs&) = 0;
  virtual void run(const GrMixArgs&) = 0;
  virtual void run(const GdnPreArgs&) = 0;
  virtual void run(const GdnScanArgs&) = 0;
  virtual void run(const GdnPostArgs&) = 0;
  virtual void run(const QsaBlockKeysArgs&) = 0;
  virtual void run(const QsaSelectArgs&) = 0;
  virtual void run(const MoeRouteArgs&) = 0;
  virtual void run(const MoeGroupArgs&) = 0;
  virtual void run(const NgramHashArgs&) = 0;
  virtual void run(const NgramGateArgs&) = 0;
  virtual void run(const NgramConvArgs&) = 0;

  // Neighbours of a pass that a backend may compute together; the effect is that of one after another.
  virtual void run_products(std::span<const MatmulArgs> of_one_input) {
    for (const MatmulArgs& a : of_one_input) run(a);
  }
  virtual void run_gated(const MatmulArgs& gate, const MatmulArgs& up, const SwigluArgs& act) {
    run(gate), run(up), run(act);
  }
  virtual void run_gated(const MatmulGroupedArgs& gate, const MatmulGroupedArgs& up, const SwigluArgs& act) {
    run(gate), run(up), run(act);
  }
  virtual void run_routing(const MoeRouteArgs& route, const MoeGroupArgs& group) { run(route), run(group); }
  // The norm's b is the combine's out; nothing else reads it, so a backend need not write it.
  virtual void run_combined_norm(const MoeCombineArgs& combine, const GrNormArgs& norm) {
    run(combine), run(norm);
  }

  // The rest of a mixer, of a delta rule's layer and of the experts. What these hand on among themselves (lo
  // and up; qn, kn, vc, gb, kq and o; g, u, and their activation) nothing else reads, so a backend need not
  // write it.
  virtual void run_mixed(const GrGateArgs& gate, const MatmulArgs& up, const GrMixArgs& mix) {
    run(gate), run(up), run(mix);
  }
  virtual void run_delta(const GdnPreArgs& pre, const GdnScanArgs& scan, const GdnPostArgs& post) {
    run(pre), run(scan), run(post);
  }
  virtual void run_experts(const ExpertBlock& e) {
    const MatmulArgs routers[] = {e.router, e.shared_router};
    run_products(routers);
    run_routing(e.route, e.group);
    run_gated(e.gate, e.up, e.act);
    run(e.down);
    run_gated(e.shared_gate, e.shared_up, e.shared_act);
    run(e.shared_down);
  }

  // The next token where the logits are; here on the host, which has them brought.
  virtual void run_sample(const SampleArgs& args);

  // Can weights of this type be multiplied and looked up?
  virtual bool can_compute(WeightType type) const = 0;
};

}  // namespace argon::ops
