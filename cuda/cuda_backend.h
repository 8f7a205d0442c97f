// The operations on one NVIDIA GPU (compute capability 8.0 or newer): weights are copied to the device once,
// every operation is a kernel or a few in one stream, errors are collected and told by finish(). The bits are
// those of the scalar references (NUMERICS.md). One object is used by one thread at a time.
#pragma once

#include <map>
#include <memory>

#include "cuda/figures.h"
#include "cuda/stream_queue.h"
#include "cuda/weights.h"
#include "ops/backend.h"

namespace argon {

// Is there a device that make_cuda_backend() can use? Never fails, starts nothing on the device.
bool cuda_available();
// Bytes of the device's memory. Errors as of make_cuda_backend.
struct CudaMemory {
  uint64_t free, total;
};
Result<CudaMemory> cuda_memory(int device = 0);
// The backend on device `device`. kResource or kUnsupported when there is none that can be used, saying why.
Result<std::unique_ptr<ops::Backend>> make_cuda_backend(int device = 0);

class CudaBackend final : public ops::Backend {
 public:
  ~CudaBackend() override;
  static Result<std::unique_ptr<CudaBackend>> create(int device);

  std::string name() const override { return "cuda (" + queue_.device_name() + ")"; }
  int64_t best_pass() const override { return cuda::kBestPass; }
  Result<void*> allocate(size_t bytes) override;
  void free(void* p, size_t bytes) override;
  // Host ranges inside an earlier one share its copy (views of one tensor).
  Result<const void*> place(const void* host, size_t bytes) override;
  void write(void* to, const void* from_host, size_t bytes) override { queue_.write(to, from_host, bytes); }
  void read(void* to_host, const void* from, size_t bytes) override { queue_.read(to_host, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { queue_.copy(to, from, bytes); }
  void zero(void* to, size_t bytes) override { queue_.zero(to, bytes); }
  // Experts in the layout that the kernels read, split as put_expert brings them.
  Result<ops::ExpertMatrix> allocate_experts(const ops::ExpertMatrix& like, int64_t count,
                                             bool lasting) override;
  void put_expert(const ops::ExpertMatrix& to, int64_t at, const void* host) override;
  Result<void*> allocate_host(size_t bytes) override;
  void free_host(void* p, size_t bytes) override;
  void read_begin(std::span<const ops::ReadPart> parts) override { queue_.read_begin(parts); }
  void read_end() override { queue_.read_end(); }
  void submit() override { queue_.flush(); }
  Status finish() override { return queue_.finish(); }
  void run(const ops::QuantizeArgs& a) override;
  void run(const ops::MatmulArgs& a) override;
  void run(const ops::MatmulGroupedArgs& a) override;
  void run(const ops::RmsNormArgs& a) override;
  void run(const ops::RopeArgs& a) override;
  void run(const ops::KvStoreArgs& a) override;
  void run(const ops::MoeCombineArgs& a) override;
  void run(const ops::SwigluArgs& a) override;
  void run(const ops::EmbedArgs& a) override;
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
  void run_routing(const ops::MoeRouteArgs& route, const ops::MoeGroupArgs& group) override;
  void run_combined_norm(const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) override;
  void run_mixed(const ops::GrGateArgs& gate, const ops::MatmulArgs& up, const ops::GrMixArgs& mix) override;
  void run_delta(const ops::GdnPreArgs& pre, const ops::GdnScanArgs& scan,
                 const ops::GdnPostArgs& post) override;
  void run_experts(const ops::ExpertBlock& e) override;
  void run_sample(const ops::SampleArgs& a) override;
  bool can_compute(WeightType type) const override;

  cuda::StreamQueue& queue() { return queue_; }

 private:
  struct Placed {
    size_t bytes;
    uint8_t* device;
  };
  CudaBackend() = default;
  // How kernels find this matrix; splits it first when it is placed memory, of a type that gains by it, and
  // about to be multiplied with.
  cuda::WeightView view(const ops::WeightMatrix& w, int64_t matrices, size_t matrix_bytes, bool multiply);
  cuda::WeightView view(const ops::MatmulArgs& a) { return view(a.w, 1, 0, true); }
  cuda::WeightView view(const ops::MatmulGroupedArgs& a) {
    return view(a.w.first, a.w.experts, a.w.expert_bytes, true);
  }
  void run_pair(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up);
  bool is_placed(const void* device, size_t bytes) const;
  static bool can_split(const ops::WeightMatrix& w, size_t matrix_bytes);
  bool split(const cuda::WeightView& v, int64_t matrices);
  static void set_split(cuda::WeightView& v);

  cuda::StreamQueue queue_;
  std::map<const uint8_t*, Placed> placed_;  // by host address
  std::vector<uint8_t*> outgrown_;           // earlier copies of what grew
  struct OnDevice {
    size_t bytes;
    const uint8_t* host;  // null: experts of allocate_experts
  };
  std::map<const uint8_t*, OnDevice> placed_on_device_;  // by device address
  std::map<const void*, cuda::WeightView> split_;        // by device address
};

}  // namespace argon
