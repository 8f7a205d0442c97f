// The operations on this machine's processors: a thread pool, and for each call the fastest route that the
// instruction set allows.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace argon {

// The highest instruction set level that processor and operating system support and this build has kernels
// for.
ops::Isa detect_isa();
std::string_view isa_name(ops::Isa isa);
// "scalar", "avx2", ...; kBadInput with the list otherwise, kUnsupported when this machine does not have it.
Result<ops::Isa> parse_isa(std::string_view name);

class CpuBackend final : public ops::Backend {
 public:
  CpuBackend(int threads, ops::Isa isa) : pool_(threads), isa_(isa) {}

  std::string name() const override;
  int threads() const { return pool_.size(); }
  Result<void*> allocate(size_t bytes) override;
  void free(void* p, size_t bytes) override;
  Result<const void*> place(const void* host, size_t) override { return host; }
  void write(void* to, const void* from_host, size_t bytes) override;
  void read(void* to_host, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void zero(void* to, size_t bytes) override;
  Status finish() override { return {}; }
  void stay_ready(bool on) override { pool_.stay_awake(on); }
  void run(const ops::QuantizeArgs& a) override;
  void run(const ops::MatmulArgs& a) override;
  void run(const ops::MatmulGroupedArgs& a) override;
  void run(const ops::RmsNormArgs& a) override;
  void run(const ops::RopeArgs& a) override;
  void run(const ops::KvStoreArgs& a) override;
  void run(const ops::MoeCombineArgs& a) override;
  void run(const ops::SwigluArgs& a) override;
  void run(const ops::EmbedArgs& a) override;
  void run_sample(const ops::SampleArgs& a) override;
  void run(const ops::QsaAttentionArgs& a) override;
  void run(const ops::GrNormArgs& a) override;
  void run(const ops::GrApplyArgs& a) override;
  void run(const ops::GrGateArgs& a) override;
  void run(const ops::GrMixArgs& a) override;
  void run(const ops::GdnPreArgs& a) override;
  void run(const ops::GdnScanArgs& a) override;
  void run(const ops::GdnPostArgs& a) override;
  void run(const ops::QsaBlockKeysArgs& a) override;
  void run(const ops::QsaSelectArgs& a) override;
  void run(const ops::MoeRouteArgs& a) override;
  void run(const ops::MoeGroupArgs& a) override;
  void run(const ops::NgramHashArgs& a) override;
  void run(const ops::NgramGateArgs& a) override;
  void run(const ops::NgramConvArgs& a) override;
  void run_products(std::span<const ops::MatmulArgs> of_one_input) override;
  void run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up, const ops::SwigluArgs& act) override;
  void run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                 const ops::SwigluArgs& act) override;
  void run_experts(const ops::ExpertBlock& e) override;
  bool can_compute(WeightType type) const override;

 private:
  template <class Args>
  void dispatch(const Args& a, int64_t rows);
  // The units of several calls as one job of the pool.
  template <class... Work>
  void dispatch_together(const Work&... work);
  // The experts that have rows, in order; valid until the next call.
  std::span<const int32_t> chosen_experts(const ops::MatmulGroupedArgs& a);

  ThreadPool pool_;
  ops::Isa isa_;
  std::vector<int32_t> chosen_;
};

}  // namespace argon
