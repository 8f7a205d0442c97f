#include "cuda/cuda_backend.h"

#include <algorithm>
#include <string>

#include "cuda/kernels.h"
#include "formats/format.h"

namespace argon {
namespace {

std::string mebibytes(size_t bytes) { return std::to_string((bytes + (size_t{1} << 20) - 1) >> 20) + " MiB"; }

Status no_memory(size_t bytes, const char* what) {
  size_t free = 0, total = 0;
  cudaGetLastError();
  cudaMemGetInfo(&free, &total);
  return resource_error("cannot get " + mebibytes(bytes) + " of GPU memory for " + what + ": " +
                        mebibytes(free) + " of " + mebibytes(total) +
                        " are free; a smaller context (-c) or a smaller file needs less, --backend cpu none");
}

// Room behind a placed range, for views of one tensor that start inside it and end behind it (the file's
// fused gate and up experts: the second view ends one matrix later).
size_t slack(size_t bytes) {
  if (bytes < (size_t{1} << 20)) return bytes;
  return bytes < (size_t{256} << 20) ? bytes / 16 : bytes / 256;
}

}  // namespace

bool cuda_available() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  for (int i = 0; i < count; ++i) {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) == cudaSuccess && major >= 8)
      return true;
  }
  return false;
}

Result<std::unique_ptr<ops::Backend>> make_cuda_backend(int device) {
  ARGON_ASSIGN_OR_RETURN(std::unique_ptr<ops::Backend> b, CudaBackend::create(device));
  return b;
}

Result<std::unique_ptr<CudaBackend>> CudaBackend::create(int device) {
  std::unique_ptr<CudaBackend> b(new CudaBackend);
  ARGON_RETURN_IF_ERROR(b->queue_.open(device));
  return b;
}

CudaBackend::~CudaBackend() {
  static_cast<void>(queue_.finish());
  for (const auto& [host, p] : placed_) cudaFree(p.device);
}

uint64_t CudaBackend::memory_size() const {
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? total : 0;
}

Result<void*> CudaBackend::allocate(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) return no_memory(bytes, "working memory or a sequence's state");
  queue_.zero(p, bytes);
  return p;
}

void CudaBackend::free(void* p, size_t) {
  queue_.flush();
  queue_.check(cudaStreamSynchronize(queue_.stream()), "computing");
  cudaFree(p);
}

Result<const void*> CudaBackend::place(const void* host, size_t bytes) {
  const uint8_t* from = static_cast<const uint8_t*>(host);
  auto at = placed_.upper_bound(from);
  if (at != placed_.begin()) {
    auto& [start, p] = *std::prev(at);
    const size_t offset = static_cast<size_t>(from - start);
    if (offset < p.bytes && offset + bytes <= p.room) {
      if (offset + bytes > p.bytes) {
        queue_.write(p.device + p.bytes, start + p.bytes, offset + bytes - p.bytes);
        p.bytes = offset + bytes;
        placed_on_device_[p.device] = p.bytes;
      }
      ARGON_RETURN_IF_ERROR(queue_.finish());
      return static_cast<const void*>(p.device + offset);
    }
  }
  Placed p{bytes, bytes + slack(bytes), nullptr};
  void* device = nullptr;
  if (cudaMalloc(&device, p.room) != cudaSuccess) return no_memory(p.room, "weights");
  p.device = static_cast<uint8_t*>(device);
  queue_.write(p.device, host, bytes);
  if (Status s = queue_.finish(); !s.ok()) {
    cudaFree(device);
    return s;
  }
  placed_.insert_or_assign(from, p);
  placed_on_device_[p.device] = bytes;
  return static_cast<const void*>(device);
}

bool CudaBackend::is_placed(const void* device, size_t bytes) const {
  const uint8_t* p = static_cast<const uint8_t*>(device);
  auto at = placed_on_device_.upper_bound(p);
  if (at == placed_on_device_.begin()) return false;
  --at;
  return p + bytes <= at->first + at->second;
}

cuda::WeightView CudaBackend::view(const ops::WeightMatrix& w, int64_t matrices, size_t matrix_bytes,
                                   bool multiply) {
  if (const auto found = split_.find(w.data); found != split_.end()) return found->second;
  cuda::WeightView v = cuda::file_view(w);
  v.matrix_bytes = static_cast<int64_t>(matrix_bytes);
  const int code_bytes = cuda::split_code_bytes(w.type);
  const size_t one = static_cast<size_t>(w.rows) * w.row_bytes;
  const size_t all = static_cast<size_t>(matrices - 1) * matrix_bytes + one;
  v.constant = is_placed(w.data, all);
  if (!multiply || code_bytes == 0 || w.cols % 32 != 0 || reinterpret_cast<uintptr_t>(w.data) % 16 != 0 ||
      matrix_bytes % 16 != 0 || !v.constant) {
    return v;
  }
  v.split = true;
  v.code_bytes = code_bytes;
  v.scales = w.rows * (w.cols / 32) * code_bytes;
  // Once per matrix and process: a passing copy, given back at once.
  void* copy = nullptr;
  if (cudaMalloc(&copy, all) != cudaSuccess) {
    cudaGetLastError();  // no room for the copy: the file's layout serves, slower
    v.split = false;
    return v;
  }
  queue_.copy(copy, w.data, all);
  cuda::split_weights(queue_, v, matrices, static_cast<const uint8_t*>(copy));
  queue_.flush();
  queue_.check(cudaStreamSynchronize(queue_.stream()), "preparing weights");
  cudaFree(copy);
  split_[w.data] = v;
  return v;
}

bool CudaBackend::can_compute(WeightType type) const { return find_format(type) != nullptr; }

void CudaBackend::run(const ops::QuantizeArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::MatmulArgs& a) { cuda::run(queue_, a, view(a.w, 1, 0, true)); }
void CudaBackend::run(const ops::MatmulGroupedArgs& a) { cuda::run(queue_, a, view(a)); }
void CudaBackend::run(const ops::EmbedArgs& a) { cuda::run(queue_, a, view(a.w, 1, 0, false)); }
void CudaBackend::run(const ops::RmsNormArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::RopeArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::KvStoreArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::MoeCombineArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::SwigluArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::QsaAttentionArgs& a) {
  if (cuda::attention_step(queue_, a)) return;
  cuda::run(queue_, a);
  if (a.out_q.codes != nullptr) cuda::run(queue_, ops::quantized(a));
}
void CudaBackend::run(const ops::GrNormArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::GrApplyArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::GrGateArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::GrMixArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::GdnPreArgs& a) {
  if (!cuda::gdn_one(queue_, a)) cuda::run(queue_, a);
}
void CudaBackend::run(const ops::GdnScanArgs& a) {
  if (!cuda::gdn_one(queue_, a)) cuda::run(queue_, a);
}
void CudaBackend::run(const ops::GdnPostArgs& a) {
  if (cuda::gdn_one(queue_, a)) return;
  cuda::run(queue_, a);
  if (a.out_q.codes != nullptr) cuda::run(queue_, ops::quantized(a));
}
void CudaBackend::run(const ops::QsaBlockKeysArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::QsaSelectArgs& a) {
  if (!cuda::select_one(queue_, a)) cuda::run(queue_, a);
}
void CudaBackend::run(const ops::MoeRouteArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::MoeGroupArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::NgramHashArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::NgramGateArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::NgramConvArgs& a) { cuda::run(queue_, a); }

void CudaBackend::run_products(std::span<const ops::MatmulArgs> all) {
  std::vector<cuda::WeightView> views;
  for (const ops::MatmulArgs& a : all) views.push_back(view(a.w, 1, 0, true));
  if (cuda::products(queue_, all.data(), views.data(), static_cast<int>(all.size()))) return;
  for (size_t i = 0; i < all.size(); ++i) cuda::run(queue_, all[i], views[i]);
}

void CudaBackend::run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up,
                            const ops::SwigluArgs& act) {
  const ops::MatmulArgs both[] = {gate, up};
  run_products(both);
  run(act);
}

void CudaBackend::run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                            const ops::SwigluArgs& act) {
  if (!cuda::grouped_pair(queue_, {gate, up}, {view(gate), view(up)})) {
    run(gate);
    run(up);
  }
  run(act);
}

void CudaBackend::run_routing(const ops::MoeRouteArgs& route, const ops::MoeGroupArgs& group) {
  if (cuda::routing(queue_, route, group)) return;
  run(route);
  run(group);
}

void CudaBackend::run_combined_norm(const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) {
  if (cuda::combined_norm(queue_, combine, norm)) return;
  run(combine);
  run(norm);
}

void CudaBackend::run_mixed(const ops::GrGateArgs& gate, const ops::MatmulArgs& up,
                            const ops::GrMixArgs& mix) {
  if (!cuda::mixed(queue_, gate, up, view(up.w, 1, 0, true), mix)) Backend::run_mixed(gate, up, mix);
}

void CudaBackend::run_delta(const ops::GdnPreArgs& pre, const ops::GdnScanArgs& scan,
                            const ops::GdnPostArgs& post) {
  if (!cuda::delta(queue_, pre, scan, post)) Backend::run_delta(pre, scan, post);
}

// A step's experts in four launches: everything of the block's input, the routing, gate and up, down.
void CudaBackend::run_experts(const ops::ExpertBlock& e) {
  if (e.route.T != 1) return Backend::run_experts(e);
  const ops::MatmulArgs first[] = {e.router, e.shared_router, e.shared_gate, e.shared_up};
  run_products(first);
  run_routing(e.route, e.group);
  if (!cuda::grouped_pair(queue_, {e.gate, e.up}, {view(e.gate), view(e.up)})) {
    run(e.gate);
    run(e.up);
  }
  if (cuda::gated_down(queue_, e.act, e.down, view(e.down), e.shared_act, e.shared_down,
                       view(e.shared_down.w, 1, 0, true))) {
    return;
  }
  run(e.act);
  run(e.down);
  run(e.shared_act);
  run(e.shared_down);
}

}  // namespace argon
