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

template <class Args>
void CpuBackend::dispatch(const Args& a, int64_t rows) {
  const auto& route = ops::pick_route(ops::routes_of(&a), isa_, rows);
  pool_.run(units(a), 1, [&](int64_t begin, int64_t end) { route.run(a, begin, end); });
}

template <class Args>
void CpuBackend::dispatch_all(std::span<const Args> calls, int64_t rows) {
  const auto& route = ops::pick_route(ops::routes_of(calls.data()), isa_, rows);
  int64_t all = 0;
  for (const Args& a : calls) all += units(a);
  pool_.run(all, 1, [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // the call's first unit
    for (const Args& a : calls) {
      const int64_t from = std::max(begin, first), to = std::min(end, first + units(a));
      if (from < to) route.run(a, from - first, to - first);
      first += units(a);
    }
  });
}

void CpuBackend::run_products(std::span<const ops::MatmulArgs> of_one_input) {
  if (!of_one_input.empty()) dispatch_all(of_one_input, of_one_input[0].T);
}
void CpuBackend::run_gated(const ops::MatmulArgs& gate, const ops::MatmulArgs& up,
                           const ops::SwigluArgs& act) {
  run_products(std::array{gate, up});
  run(act);
}
void CpuBackend::run_gated(const ops::MatmulGroupedArgs& gate, const ops::MatmulGroupedArgs& up,
                           const ops::SwigluArgs& act) {
  const std::array both = {gate, up};
  dispatch_all(std::span<const ops::MatmulGroupedArgs>(both), gate.S);
  run(act);
}

void CpuBackend::run_sample(const ops::SampleArgs& a) {
  ops::sample_with(a, [this](const ops::SampleWeightsArgs& w) { dispatch(w, units(w)); });
}

void CpuBackend::run(const ops::QuantizeArgs& a) { dispatch(a, units(a)); }
void CpuBackend::run(const ops::MatmulArgs& a) { dispatch(a, a.T); }
void CpuBackend::run(const ops::MatmulGroupedArgs& a) { dispatch(a, a.S); }
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
