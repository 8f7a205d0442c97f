#include "cuda/cuda_backend.h"

#include <algorithm>
#include <string>

#include "cuda/errors.h"
#include "cuda/kernels.h"
#include "formats/format.h"

namespace argon {
namespace {

// Weights are put into the kernels' layout by pieces of this size at most.
constexpr size_t kPiece = size_t{16} << 20;

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

Result<CudaMemory> cuda_memory(int device) {
  size_t free = 0, total = 0;
  cudaError_t e = cudaSetDevice(device);
  if (e == cudaSuccess) e = cudaMemGetInfo(&free, &total);
  if (e == cudaSuccess) return CudaMemory{free, total};
  cudaGetLastError();
  return resource_error("no CUDA device " + std::to_string(device) + ": " + cudaGetErrorString(e));
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
  for (uint8_t* p : outgrown_) cudaFree(p);
}

Result<void*> CudaBackend::allocate(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* p = nullptr;
  if (const cudaError_t e = cudaMalloc(&p, bytes); e != cudaSuccess)
    return queue_.refusal(e, bytes, "working memory or a sequence's state");
  queue_.zero(p, bytes);
  return p;
}

void CudaBackend::free(void* p, size_t) {
  queue_.flush();
  queue_.check(cudaStreamSynchronize(queue_.stream()), "computing");
  placed_on_device_.erase(static_cast<const uint8_t*>(p));
  split_.erase(p);
  cudaFree(p);
}

Result<const void*> CudaBackend::place(const void* host, size_t bytes) {
  const uint8_t* from = static_cast<const uint8_t*>(host);
  if (auto at = placed_.upper_bound(from); at != placed_.begin()) {
    const auto& [start, p] = *std::prev(at);
    if (from + bytes <= start + p.bytes) return static_cast<const void*>(p.device + (from - start));
  }
  void* device = nullptr;
  if (const cudaError_t e = cudaMalloc(&device, std::max<size_t>(bytes, 1)); e != cudaSuccess)
    return queue_.refusal(e, bytes, "weights");
  queue_.write(device, host, bytes);
  if (Status s = queue_.finish(); !s.ok()) {
    cudaFree(device);
    return s;
  }
  const Placed p{bytes, static_cast<uint8_t*>(device)};
  // A longer range from the same address on: the shorter copy stays for those who use it.
  if (const auto [known, added] = placed_.try_emplace(from, p); !added) {
    outgrown_.push_back(known->second.device);
    known->second = p;
  }
  placed_on_device_[p.device] = {bytes, from};
  return static_cast<const void*>(device);
}

Result<ops::ExpertMatrix> CudaBackend::allocate_experts(const ops::ExpertMatrix& like, int64_t count,
                                                        bool lasting) {
  ops::ExpertMatrix m = like;
  m.experts = count;
  m.expert_bytes = ops::expert_room(like);
  const size_t bytes = static_cast<size_t>(count) * m.expert_bytes;
  void* device = nullptr;
  if (const cudaError_t e = cudaMalloc(&device, std::max<size_t>(bytes, 1)); e != cudaSuccess)
    return queue_.refusal(e, bytes, "experts");
  m.first.data = device;
  // What changes while kernels run is no constant, which they may read before earlier ones have ended.
  if (lasting) placed_on_device_[static_cast<const uint8_t*>(device)] = {bytes, nullptr};
  if (can_split(m.first, m.expert_bytes)) {
    cuda::WeightView v = cuda::file_view(m.first);
    v.matrix_bytes = static_cast<int64_t>(m.expert_bytes);
    v.constant = lasting;
    set_split(v);
    split_[device] = v;
  }
  return m;
}

void CudaBackend::put_expert(const ops::ExpertMatrix& to, int64_t at, const void* host) {
  const size_t bytes = static_cast<size_t>(to.first.rows) * to.first.row_bytes;
  auto* slot =
      static_cast<uint8_t*>(const_cast<void*>(to.first.data)) + static_cast<size_t>(at) * to.expert_bytes;
  const auto split = split_.find(to.first.data);
  if (split == split_.end()) return queue_.write(slot, host, bytes);
  void* file_layout = queue_.scratch(bytes);
  if (file_layout == nullptr) return;
  queue_.write(file_layout, host, bytes);
  cuda::WeightView v = split->second;
  v.data = slot;
  cuda::split_weights(queue_, v, 0, v.rows * (v.cols / 32), static_cast<const uint8_t*>(file_layout));
}

Result<void*> CudaBackend::allocate_host(size_t bytes) {
  void* p = nullptr;
  if (const cudaError_t e = cudaMallocHost(&p, std::max<size_t>(bytes, 1)); e != cudaSuccess) {
    if (e != cudaErrorMemoryAllocation) return queue_.failure(e, "getting memory of the host");
    cudaGetLastError();
    return resource_error(
        "cannot get " + cuda::mebibytes(bytes) +
        " of host memory that the GPU reaches, for the experts that the CPU computes; shorter "
        "passes (--pass) need less");
  }
  return p;
}

void CudaBackend::free_host(void* p, size_t) { cudaFreeHost(p); }

bool CudaBackend::is_placed(const void* device, size_t bytes) const {
  const uint8_t* p = static_cast<const uint8_t*>(device);
  auto at = placed_on_device_.upper_bound(p);
  if (at == placed_on_device_.begin()) return false;
  --at;
  return p + bytes <= at->first + at->second.bytes;
}

bool CudaBackend::can_split(const ops::WeightMatrix& w, size_t matrix_bytes) {
  return cuda::split_code_bytes(w.type) > 0 && w.cols % 32 == 0 &&
         reinterpret_cast<uintptr_t>(w.data) % 16 == 0 && matrix_bytes % 16 == 0;
}

void CudaBackend::set_split(cuda::WeightView& v) {
  v.split = true;
  v.code_bytes = cuda::split_code_bytes(v.type);
  v.scales = v.rows * (v.cols / 32) * v.code_bytes;
}

// Once per matrix and process, by pieces that go through scratch memory. Whole matrices are copied on the
// device; of one that is larger than a piece, blocks would be written where others wait to be read, so it
// comes from the host again. False: the pass has failed already, or fails by this, and nothing may rely on
// the new layout.
bool CudaBackend::split(const cuda::WeightView& v, int64_t matrices) {
  const size_t block = static_cast<size_t>(v.code_bytes) + 2;
  const int64_t per_matrix = v.rows * (v.cols / 32);
  const size_t one = static_cast<size_t>(per_matrix) * block, each = static_cast<size_t>(v.matrix_bytes);
  auto* copy =
      static_cast<uint8_t*>(queue_.scratch(std::min(kPiece, static_cast<size_t>(matrices - 1) * each + one)));
  if (copy == nullptr || !queue_.ok()) return false;
  if (one <= kPiece && each <= kPiece) {
    const int64_t most = matrices == 1 ? 1 : static_cast<int64_t>(kPiece / each);
    for (int64_t m = 0; m < matrices; m += most) {
      const int64_t n = std::min(most, matrices - m);
      queue_.copy(copy, v.data + static_cast<size_t>(m) * each, static_cast<size_t>(n - 1) * each + one);
      cuda::split_weights(queue_, v, m * per_matrix, n * per_matrix, copy);
    }
  } else {
    const auto at = std::prev(placed_on_device_.upper_bound(v.data));
    const uint8_t* host = at->second.host + (v.data - at->first);
    const int64_t most = static_cast<int64_t>(kPiece / block);
    for (int64_t m = 0; m < matrices; ++m) {
      for (int64_t b = 0; b < per_matrix; b += most) {
        const int64_t n = std::min(most, per_matrix - b);
        queue_.write(copy, host + static_cast<size_t>(m) * each + static_cast<size_t>(b) * block,
                     static_cast<size_t>(n) * block);
        cuda::split_weights(queue_, v, m * per_matrix + b, n, copy);
      }
    }
  }
  queue_.flush();
  return queue_.check(cudaStreamSynchronize(queue_.stream()), "preparing weights") && queue_.ok();
}

cuda::WeightView CudaBackend::view(const ops::WeightMatrix& w, int64_t matrices, size_t matrix_bytes,
                                   bool multiply) {
  if (const auto found = split_.find(w.data); found != split_.end()) return found->second;
  cuda::WeightView v = cuda::file_view(w);
  v.matrix_bytes = static_cast<int64_t>(matrix_bytes);
  const size_t one = static_cast<size_t>(w.rows) * w.row_bytes;
  const size_t all = static_cast<size_t>(matrices - 1) * matrix_bytes + one;
  v.constant = is_placed(w.data, all);
  if (!multiply || !v.constant || !can_split(w, matrix_bytes)) return v;
  cuda::WeightView prepared = v;
  set_split(prepared);
  if (!split(prepared, matrices)) return v;
  split_[w.data] = prepared;
  return prepared;
}

bool CudaBackend::can_compute(WeightType type) const { return find_format(type) != nullptr; }

void CudaBackend::run(const ops::QuantizeArgs& a) { cuda::run(queue_, a); }
void CudaBackend::run(const ops::MatmulArgs& a) { cuda::run(queue_, a, view(a)); }
void CudaBackend::run(const ops::MatmulGroupedArgs& a) { cuda::run(queue_, a, view(a)); }
void CudaBackend::run_sample(const ops::SampleArgs& a) { cuda::run(queue_, a); }
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
  for (const ops::MatmulArgs& a : all) views.push_back(view(a));
  if (cuda::products(queue_, all.data(), views.data(), static_cast<int>(all.size()))) return;
  for (size_t i = 0; i < all.size(); ++i) cuda::run(queue_, all[i], views[i]);
}

void CudaBackend::run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up,
                            const ops::SwigluArgs& act) {
  const ops::MatmulArgs both[] = {gate, up};
  run_products(both);
  run(act);
}

void CudaBackend::run_pair(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up) {
  if (cuda::grouped_pair(queue_, {gate, up}, {view(gate), view(up)})) return;
  run(gate);
  run(up);
}

void CudaBackend::run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                            const ops::SwigluArgs& act) {
  run_pair(gate, up);
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
  if (!cuda::mixed(queue_, gate, up, view(up), mix)) Backend::run_mixed(gate, up, mix);
}

void CudaBackend::run_delta(const ops::GdnPreArgs& pre, const ops::GdnScanArgs& scan,
                            const ops::GdnPostArgs& post) {
  if (!cuda::delta(queue_, pre, scan, post)) Backend::run_delta(pre, scan, post);
}

// A pass: as the operations say, but gate, up and activation in one kernel where it takes them. A step in
// four launches: everything of the block's input, the routing, gate and up, down.
void CudaBackend::run_experts(const ops::ExpertBlock& e) {
  if (e.route.T != 1) {
    const ops::MatmulArgs routers[] = {e.router, e.shared_router};
    run_products(routers);
    run_routing(e.route, e.group);
    if (is_plain_float(e.down.w.first.type) ||
        !cuda::gated_experts(queue_, e.gate, view(e.gate), e.up, view(e.up), e.act)) {
      run_gated(e.gate, e.up, e.act);
    }
    run(e.down);
    run_gated(e.shared_gate, e.shared_up, e.shared_act);
    run(e.shared_down);
    return;
  }
  const ops::MatmulArgs first[] = {e.router, e.shared_router, e.shared_gate, e.shared_up};
  run_products(first);
  run_routing(e.route, e.group);
  run_pair(e.gate, e.up);
  if (cuda::gated_down(queue_, e.act, e.down, view(e.down), e.shared_act, e.shared_down,
                       view(e.shared_down))) {
    return;
  }
  run(e.act);
  run(e.down);
  run(e.shared_act);
  run(e.shared_down);
}

}  // namespace argon
