// Two backends as one: a device that computes everything, and a host that computes, at the same time, the
// experts for which the device has no memory. The most used experts are on the device; which they are changes
// between passes, never in one. Experts hand back rows that only the combine adds, so by the numeric contract
// the bits are the same wherever one ran.
//
// A divided layer of a pass: the device routes, hands the host the chosen experts and the block's input, and
// goes on with the shared expert; the host sorts the slots by place (the device's first) and gives the device
// its own; both multiply; the host's rows are written behind the device's. In a long pass, which uses every
// expert many times, the host's are uploaded instead, some at a time, the next while the last are multiplied.
//
// Memory: prepare() divides the budget (plan.h). Layers whose experts all fit are the device's own affair. A
// second model is served from what the first leaves, if all of it fits there, else refused.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ops/backend.h"
#include "tiers/plan.h"

namespace argon::tiers {

struct Options {
  uint64_t budget = 0;  // bytes of the device's memory that may be taken, all in all
  uint64_t own = 0;     // of them, what the device needs for itself (MemoryNeeds::own)
  // Bytes of experts that may change places between passes: so many for every token read, used once there are
  // `swap_least`, never more than `swap_most` at a time.
  uint64_t swap_per_token = uint64_t{512} << 10, swap_least = uint64_t{16} << 20;
  uint64_t swap_most = uint64_t{256} << 20;
  // From so many rows on for each of the host's experts that a pass uses, they are uploaded to pass through
  // the device rather than computed by the host.
  int64_t upload_rows = 4;
};

class TieredBackend final : public ops::Backend {
 public:
  // The host computes in ordinary memory, where the weights are.
  TieredBackend(std::unique_ptr<ops::Backend> device, std::unique_ptr<ops::Backend> host,
                const Options& options);
  ~TieredBackend() override;

  std::string name() const override;
  // The division that holds, of the first model; null before it.
  const Plan* plan() const { return planned_.empty() ? nullptr : &planned_.front().plan; }
  ops::Backend& device() { return *device_; }
  int64_t best_pass() const override { return device_->best_pass(); }
  uint64_t memory_size() const override { return options_.budget; }
  // Rows of experts computed so far in divided layers, by the device and by the host, and seconds that the
  // host has waited for the device's routing and has computed.
  struct Rows {
    int64_t device = 0, host = 0, uploaded = 0, swaps = 0;  // uploaded: by the device, of passing experts
    double waited = 0, computed = 0;
  };
  const Rows& rows() const { return rows_; }

  Status prepare(const ops::MemoryNeeds& needs) override;
  Status place_experts(std::span<ops::ExpertMatrix* const> of_a_layer) override;
  void run_experts(const ops::ExpertBlock& e) override;
  // Also lets experts change places.
  Status finish() override;

  Result<void*> allocate(size_t bytes) override { return device_->allocate(bytes); }
  void free(void* p, size_t bytes) override { device_->free(p, bytes); }
  Result<const void*> place(const void* host, size_t bytes) override { return device_->place(host, bytes); }
  // Null where the plan leaves the table in the file.
  Result<const void*> place_table(const void* host, size_t bytes) override {
    if (!planned_.empty() && !planned_[placing_].plan.table) return static_cast<const void*>(nullptr);
    return device_->place_table(host, bytes);
  }
  Result<ops::ExpertMatrix> allocate_experts(const ops::ExpertMatrix& like, int64_t count,
                                             bool lasting) override {
    return device_->allocate_experts(like, count, lasting);
  }
  void put_expert(const ops::ExpertMatrix& to, int64_t at, const void* host) override {
    device_->put_expert(to, at, host);
  }
  void write(void* to, const void* from_host, size_t bytes) override { device_->write(to, from_host, bytes); }
  void read(void* to_host, const void* from, size_t bytes) override { device_->read(to_host, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { device_->copy(to, from, bytes); }
  void zero(void* to, size_t bytes) override { device_->zero(to, bytes); }
  Result<void*> allocate_host(size_t bytes) override { return device_->allocate_host(bytes); }
  void free_host(void* p, size_t bytes) override { device_->free_host(p, bytes); }
  void read_begin(std::span<const ops::ReadPart> parts) override { device_->read_begin(parts); }
  void read_end() override { device_->read_end(); }
  void submit() override { device_->submit(); }
  void run(const ops::QuantizeArgs& a) override { device_->run(a); }
  void run(const ops::MatmulArgs& a) override { device_->run(a); }
  void run(const ops::MatmulGroupedArgs& a) override { device_->run(a); }
  void run(const ops::RmsNormArgs& a) override { device_->run(a); }
  void run(const ops::RopeArgs& a) override { device_->run(a); }
  void run(const ops::KvStoreArgs& a) override { device_->run(a); }
  void run(const ops::MoeCombineArgs& a) override { device_->run(a); }
  void run(const ops::SwigluArgs& a) override { device_->run(a); }
  void run(const ops::EmbedArgs& a) override { device_->run(a); }
  void run_sample(const ops::SampleArgs& a) override { device_->run_sample(a); }
  void run(const ops::QsaAttentionArgs& a) override { device_->run(a); }
  void run(const ops::GrNormArgs& a) override { device_->run(a); }
  void run(const ops::GrApplyArgs& a) override { device_->run(a); }
  void run(const ops::GrGateArgs& a) override { device_->run(a); }
  void run(const ops::GrMixArgs& a) override { device_->run(a); }
  void run(const ops::GdnPreArgs& a) override { device_->run(a); }
  void run(const ops::GdnScanArgs& a) override { device_->run(a); }
  void run(const ops::GdnPostArgs& a) override { device_->run(a); }
  void run(const ops::QsaBlockKeysArgs& a) override { device_->run(a); }
  void run(const ops::QsaSelectArgs& a) override { device_->run(a); }
  void run(const ops::MoeRouteArgs& a) override { device_->run(a); }
  void run(const ops::MoeGroupArgs& a) override { device_->run(a); }
  void run(const ops::NgramHashArgs& a) override { device_->run(a); }
  void run(const ops::NgramGateArgs& a) override { device_->run(a); }
  void run(const ops::NgramConvArgs& a) override { device_->run(a); }
  void run_products(std::span<const ops::MatmulArgs> of_one_input) override {
    device_->run_products(of_one_input);
  }
  void run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up,
                 const ops::SwigluArgs& act) override {
    device_->run_gated(gate, up, act);
  }
  void run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                 const ops::SwigluArgs& act) override {
    device_->run_gated(gate, up, act);
  }
  void run_routing(const ops::MoeRouteArgs& route, const ops::MoeGroupArgs& group) override {
    device_->run_routing(route, group);
  }
  void run_combined_norm(const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) override {
    device_->run_combined_norm(combine, norm);
  }
  void run_mixed(const ops::GrGateArgs& gate, const ops::MatmulArgs& up, const ops::GrMixArgs& mix) override {
    device_->run_mixed(gate, up, mix);
  }
  void run_delta(const ops::GdnPreArgs& pre, const ops::GdnScanArgs& scan,
                 const ops::GdnPostArgs& post) override {
    device_->run_delta(pre, scan, post);
  }
  bool can_compute(WeightType type) const override {
    return device_->can_compute(type) && host_->can_compute(type);
  }

 private:
  struct Layer;
  class HostArrays;
  struct Passing;
  void run_divided(const ops::ExpertBlock& e, Layer& layer);
  void compute_on_host(const ops::ExpertBlock& e, const Layer& layer, int64_t on_device, int64_t on_host);
  Status prepare_passing(const Layer& layer);
  void upload_and_compute(const ops::ExpertBlock& e, const Layer& layer, int64_t on_device);
  bool exchange();
  void put_residents();

  std::unique_ptr<ops::Backend> device_, host_;
  Options options_;
  bool slabs_in_doubt_ = false;  // the last exchange failed
  struct Planned {
    const void* model;  // MemoryNeeds::model
    Plan plan;          // of others than the first: whole
  };
  std::vector<Planned> planned_;
  size_t placing_ = 0;                                    // whose weights are being placed
  size_t placed_ = 0;                                     // layers placed of its plan's
  std::map<const void*, std::unique_ptr<Layer>> layers_;  // divided ones, by the gate's data in the file
  std::unique_ptr<HostArrays> arrays_;
  std::unique_ptr<Passing> passing_;  // null: no room for any
  std::vector<Layer*> order_;         // of layers_, as placed
  size_t turn_ = 0;                   // whose experts may change places first
  uint64_t credit_ = 0;               // bytes that may change places
  int64_t pass_tokens_ = 0;           // of the pass since the last finish; 0: none
  Rows rows_;
  Status error_;
};

}  // namespace argon::tiers
