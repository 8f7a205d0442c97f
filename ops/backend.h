// What the model asks of a machine: memory (backend_memory.h), and one call per operation. The CPU
// (cpu/cpu_backend.h) is one implementation; a GPU is another.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/backend_memory.h"

namespace argon::ops {

class Backend : public BackendMemory {
 public:
  virtual std::string name() const = 0;

  // Tokens from which on a pass gets no faster, and the bytes of memory its working arrays are taken from (0:
  // the machine's).
  virtual int64_t best_pass() const { return 512; }
  virtual uint64_t memory_size() const { return 0; }

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
