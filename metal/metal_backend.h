// The operations on Metal kernels: on a Mac's GPU, or on the executor (any Linux machine with clang), which
// gives the same bits and checks the kernels. Memory is unified, so weights stay where they are mapped. The
// bits are those of the scalar references (NUMERICS.md). One object is used by one thread at a time.
#pragma once

#include <map>
#include <memory>

#include "metal/launch.h"
#include "ops/backend.h"

namespace argon {

// Is there a device that make_metal_backend() can use? Never fails.
bool metal_available();
// kUnsupported when there is none that can be used, saying why.
Result<std::unique_ptr<ops::Backend>> make_metal_backend(const metal::DeviceOptions& options);

class MetalBackend final : public ops::Backend {
 public:
  ~MetalBackend() override;
  static Result<std::unique_ptr<MetalBackend>> create(const metal::DeviceOptions& options);

  std::string name() const override;
  Result<void*> allocate(size_t bytes) override;
  void free(void* p, size_t bytes) override;
  // Large ranges are shared with the device without a copy, from the next operation on; small ones are
  // copied.
  Result<const void*> place(const void* host, size_t bytes) override;
  void write(void* to, const void* from_host, size_t bytes) override;
  void read(void* to_host, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void zero(void* to, size_t bytes) override;
  Status finish() override;
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
  void run_combined_norm(const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) override;
  bool can_compute(WeightType type) const override;

  metal::Launcher& launcher() { return launcher_; }

 private:
  explicit MetalBackend(std::unique_ptr<metal::Device> device) : launcher_(std::move(device)) {}
  template <class Args>
  void start(const Args& a);
  // Wraps what place() has noted.
  void settle();
  Result<const void*> place_copy(const void* host, size_t bytes);

  struct Copy {
    size_t bytes;
    const void* data;
  };
  metal::Launcher launcher_;
  std::map<uintptr_t, size_t> wrapped_, pending_;  // base: bytes
  std::map<uintptr_t, Copy> copies_;               // by host address
  std::byte* pool_ = nullptr;                      // what is left of the newest block for copies
  size_t pool_left_ = 0;
};

}  // namespace argon
