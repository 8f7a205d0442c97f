#include "cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

#include "formats/format.h"
#include "ops/routes.h"

namespace argon {

using ops::Isa;

namespace {

#if defined(__x86_64__)
constexpr std::string_view kIsaNames[] = {"scalar", "avx2", "avx512", "amx"};

// Linux gives the tile registers only to a process that asks for them; its later threads have them too.
bool tiles_allowed() {
#if defined(__linux__)
  constexpr unsigned kTileFeatures = 1u << 24 | 1u << 25;  // CPUID 7.0 EDX: AMX-TILE, AMX-INT8
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTileFeatures) != kTileFeatures)
    return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// __builtin_cpu_supports looks at CPUID and at what the operating system saves (XCR0).
Isa find_isa() {
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (!avx2) return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  if (!avx512) return Isa::kAvx2;
  return tiles_allowed() ? Isa::kAmx : Isa::kAvx512;
}
#elif defined(__aarch64__)
constexpr std::string_view kIsaNames[] = {"scalar", "neon"};

Isa find_isa() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? Isa::kNeon : Isa::kScalar;
#elif defined(__APPLE__)
  return Isa::kNeon;  // every Arm processor that macOS runs on has the dot product
#else
  return Isa::kScalar;
#endif
}
#else
constexpr std::string_view kIsaNames[] = {"scalar"};

Isa find_isa() { return Isa::kScalar; }
#endif

}  // namespace

Isa detect_isa() {
  static const Isa isa = find_isa();
  return isa;
}

std::string_view isa_name(Isa isa) { return kIsaNames[static_cast<size_t>(isa)]; }

Result<Isa> parse_isa(std::string_view name) {
  std::string known;
  for (size_t level = 0; level < std::size(kIsaNames); ++level) {
    const Isa isa = static_cast<Isa>(level);
    if (name != isa_name(isa)) {
      known += (known.empty() ? "" : ", ") + std::string(isa_name(isa));
      continue;
    }
    if (isa > detect_isa()) {
      return unsupported("this processor has no " + std::string(name) + " (it has up to " +
                         std::string(isa_name(detect_isa())) + ")");
    }
    return isa;
  }
  return bad_input("unknown instruction set '" + std::string(name) + "': wanted one of " + known);
}

std::string CpuBackend::name() const {
  return "cpu (" + std::string(isa_name(isa_)) + ", " + std::to_string(threads()) + " threads)";
}

Result<void*> CpuBackend::allocate(size_t bytes) {
  if (bytes == 0) bytes = 1;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    return resource_error("cannot get " + std::to_string(bytes >> 20) +
                          " MiB of memory: " + std::strerror(errno) + "; a smaller context (-c) needs less");
  }
  return p;
}

void CpuBackend::free(void* p, size_t bytes) { munmap(p, bytes == 0 ? 1 : bytes); }

void CpuBackend::write(void* to, const void* from_host, size_t bytes) { copy(to, from_host, bytes); }
void CpuBackend::read(void* to_host, const void* from, size_t bytes) { copy(to_host, from, bytes); }
void CpuBackend::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void CpuBackend::zero(void* to, size_t bytes) {
  if (bytes > 0) std::memset(to, 0, bytes);
}

bool CpuBackend::can_compute(WeightType type) const { return find_format(type) != nullptr; }

namespace {

// A step's products wait for memory, and whoever gets less of it should not be the last for long; a prompt's
// do some work per chunk.
constexpr int64_t kStepChunks = 16;

bool is_step(const ops::MatmulArgs& a) { return a.T == 1; }
template <class Args>
bool is_step(const Args&) {
  return false;
}

// Calls as parts of one job: how many units, and the way to run some of them.
template <class Args>
struct Call {
  const Args& a;
  const ops::Route<Args>& route;

  bool step() const { return is_step(a); }
  int64_t count() const { return units(a); }
  void run(int64_t begin, int64_t end) const { route.run(a, begin, end); }
};

template <class Args>
Call<Args> call_of(const Args& a, Isa isa, int64_t rows) {
  return {a, ops::pick_route(ops::routes_of(&a), isa, rows)};
}

// Of the tiles of all experts only those of the chosen ones, so that every unit is one of work and threads
// get alike many.
struct ChosenCall {
  const ops::MatmulGroupedArgs& a;
  const ops::Route<ops::MatmulGroupedArgs>& route;
  std::span<const int32_t> chosen;
  int64_t tiles;

  bool step() const { return a.S == static_cast<int64_t>(chosen.size()); }
  int64_t count() const { return static_cast<int64_t>(chosen.size()) * tiles; }
  void run(int64_t begin, int64_t end) const {
    for (int64_t u = begin, stop; u < end; u = stop) {
      const int64_t i = u / tiles, moved = (chosen[static_cast<size_t>(i)] - i) * tiles;
      stop = std::min(end, (i + 1) * tiles);
      route.run(a, u + moved, stop + moved);
    }
  }
};

ChosenCall call_of(const ops::MatmulGroupedArgs& a, Isa isa, std::span<const int32_t> chosen) {
  return {a, ops::pick_route(ops::routes_of(&a), isa, a.S), chosen, ops::matmul_tiles(a.w.first.rows)};
}

// Calls of one operation.
struct ProductCalls {
  std::span<const ops::MatmulArgs> calls;
  const ops::Route<ops::MatmulArgs>& route;

  bool step() const { return is_step(calls[0]); }
  int64_t count() const {
    int64_t all = 0;
    for (const ops::MatmulArgs& a : calls) all += units(a);
    return all;
  }
  void run(int64_t begin, int64_t end) const {
    int64_t first = 0;  // the call's first unit
    for (const ops::MatmulArgs& a : calls) {
      const int64_t from = std::max(begin, first), to = std::min(end, first + units(a));
      if (from < to) route.run(a, from - first, to - first);
      first += units(a);
    }
  }
};

}  // namespace

template <class... Work>
void CpuBackend::dispatch_together(const Work&... work) {
  const auto some = [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // unit of the part at hand
    const auto part = [&](const auto& w) {
      const int64_t from = std::max(begin, first), to = std::min(end, first + w.count());
      if (from < to) w.run(from - first, to - first);
      first += w.count();
    };
    (part(work), ...);
  };
  pool_.run((work.count() + ...), 1, some, (work.step() || ...) ? kStepChunks : ThreadPool::kChunks);
}

template <class Args>
void CpuBackend::dispatch(const Args& a, int64_t rows) {
  dispatch_together(call_of(a, isa_, rows));
}

std::span<const int32_t> CpuBackend::chosen_experts(const ops::MatmulGroupedArgs& a) {
  chosen_.clear();
  for (int32_t e = 0; e < a.w.experts; ++e) {
    if (a.expert_begin[e + 1] > a.expert_begin[e]) chosen_.push_back(e);
  }
  return chosen_;
}

void CpuBackend::run_products(std::span<const ops::MatmulArgs> of_one_input) {
  if (of_one_input.empty()) return;
  const auto& route = ops::pick_route(ops::routes_of(of_one_input.data()), isa_, of_one_input[0].T);
  dispatch_together(ProductCalls{of_one_input, route});
}
void CpuBackend::run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up,
                           const ops::SwigluArgs& act) {
  run_products(std::array{gate, up});
  run(act);
}
void CpuBackend::run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                           const ops::SwigluArgs& act) {
  const auto chosen = chosen_experts(gate);
  dispatch_together(call_of(gate, isa_, chosen), call_of(up, isa_, chosen));
  run(act);
}
// What does not wait for the router goes along with it, and the shared expert along with the chosen ones:
// its activation with theirs, since a job whose units differ much leaves a thread waiting at its end.
void CpuBackend::run_experts(const ops::ExpertBlock& e) {
  run_products(std::array{e.router, e.shared_router, e.shared_gate, e.shared_up});
  run_routing(e.route, e.group);
  const auto chosen = chosen_experts(e.gate);
  dispatch_together(call_of(e.gate, isa_, chosen), call_of(e.up, isa_, chosen));
  dispatch_together(call_of(e.shared_act, isa_, units(e.shared_act)), call_of(e.act, isa_, units(e.act)));
  dispatch_together(call_of(e.shared_down, isa_, e.shared_down.T), call_of(e.down, isa_, chosen));
}

void CpuBackend::run_sample(const ops::SampleArgs& a) {
  ops::sample_with(a, [this](const ops::SampleWeightsArgs& w) { dispatch(w, units(w)); });
}

void CpuBackend::run(const ops::QuantizeArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::MatmulArgs& a) { dispatch(a, a.T); }
void CpuBackend::run(const ops::MatmulGroupedArgs& a) {
  dispatch_together(call_of(a, isa_, chosen_experts(a)));
}
void CpuBackend::run(const ops::RmsNormArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::RopeArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::KvStoreArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::MoeCombineArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::SwigluArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::EmbedArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::QsaAttentionArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::GrNormArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::GrApplyArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::GrGateArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::GrMixArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::GdnPreArgs& a) { dispatch(a, a.s.T); }
void CpuBackend::run(const ops::GdnScanArgs& a) { dispatch(a, a.s.T); }
void CpuBackend::run(const ops::GdnPostArgs& a) { dispatch(a, a.s.T); }
void CpuBackend::run(const ops::QsaBlockKeysArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::QsaSelectArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::MoeRouteArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::MoeGroupArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::NgramHashArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::NgramGateArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::NgramConvArgs& a) { dispatch(a, units(a)); }

}  // namespace argon
