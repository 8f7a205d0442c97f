#include "app/backends.h"

#include "base/thread_pool.h"
#include "cpu/cpu_backend.h"
#ifdef ARGON_HAVE_CUDA
#include "cuda/cuda_backend.h"
#endif
#ifdef ARGON_HAVE_METAL
#include "metal/metal_backend.h"
#endif

namespace argon::app {
namespace {

Result<std::unique_ptr<ops::Backend>> make_cpu(const BackendChoice& c) {
  ARGON_ASSIGN_OR_RETURN(const CpuChoice cpu, cpu_choice(c));
  return std::unique_ptr<ops::Backend>(std::make_unique<CpuBackend>(cpu.threads, cpu.isa));
}

Result<std::unique_ptr<ops::Backend>> make_cuda() {
#ifdef ARGON_HAVE_CUDA
  return make_cuda_backend();
#else
  return unsupported(
      "--backend cuda: this argon was built without CUDA; cmake --preset cuda builds one with it");
#endif
}

Result<std::unique_ptr<ops::Backend>> make_metal([[maybe_unused]] const BackendChoice& c) {
#ifdef ARGON_HAVE_METAL
  metal::DeviceOptions options;
  options.threads = c.threads;
  return make_metal_backend(options);
#else
  return unsupported(
      "--backend metal: this argon was built without the Metal kernels; they need a Mac, or clang elsewhere "
      "(metal/README.md)");
#endif
}

}  // namespace

Result<CpuChoice> cpu_choice(const BackendChoice& c) {
  ops::Isa isa = detect_isa();
  if (!c.isa.empty()) {
    ARGON_ASSIGN_OR_RETURN(isa, parse_isa(c.isa));
  }
  return CpuChoice{c.threads > 0 ? c.threads : ThreadPool::available_processors(), isa};
}

std::string backend_names() {
  std::string names = "auto, cpu";
#ifdef ARGON_HAVE_CUDA
  names += ", cuda";
#endif
#ifdef ARGON_HAVE_METAL
  names += ", metal";
#endif
  return names;
}

Result<std::unique_ptr<ops::Backend>> make_backend(const BackendChoice& c) {
  if (c.name == "cpu") return make_cpu(c);
  if (c.name == "cuda") return make_cuda();
  if (c.name == "metal") return make_metal(c);
  if (c.name != "auto") {
    return bad_input("--backend is '" + c.name + "': wanted one of " + backend_names());
  }
#ifdef ARGON_HAVE_CUDA
  if (cuda_available()) return make_cuda();
#endif
#if defined(ARGON_HAVE_METAL) && defined(__APPLE__)
  if (metal_available()) return make_metal(c);
#endif
  return make_cpu(c);
}

}  // namespace argon::app
