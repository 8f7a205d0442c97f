#include "app/backends.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "cpu/cpu_backend.h"
#ifdef ARGON_HAVE_CUDA
#include "cuda/cuda_backend.h"
#endif
#include "tiers/tiered_backend.h"
#ifdef ARGON_HAVE_METAL
#include "metal/metal_backend.h"
#endif

namespace argon::app {
namespace {

std::string milliseconds(double seconds) { return std::to_string(std::llround(seconds * 1e3)) + " ms"; }
[[maybe_unused]] std::string mebibytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<std::unique_ptr<ops::Backend>> make_cpu(const BackendChoice& c) {
  ARGON_ASSIGN_OR_RETURN(const CpuChoice cpu, cpu_choice(c));
  return std::unique_ptr<ops::Backend>(std::make_unique<CpuBackend>(cpu.threads, cpu.isa));
}

Result<std::unique_ptr<ops::Backend>> make_cuda([[maybe_unused]] const BackendChoice& c) {
#ifdef ARGON_HAVE_CUDA
  ARGON_ASSIGN_OR_RETURN(auto device, make_cuda_backend());
  ARGON_ASSIGN_OR_RETURN(const CudaMemory memory, cuda_memory());
  // The host's experts keep half of the processors busy as well as all of them, and copying to the device
  // wants some too (docs/lab/cuda-tiers.md).
  BackendChoice beside = c;
  if (beside.threads == 0) beside.threads = std::max(1, ThreadPool::available_processors() / 2);
  ARGON_ASSIGN_OR_RETURN(auto host, make_cpu(beside));
  // The context is there already: it is part of what the user gives, not of what is free.
  tiers::Options o;
  o.own = cuda::kScratchBytes;
  o.budget = memory.free;
  if (c.gpu_memory > 0) {
    o.own += cuda::kContextBytes;
    o.budget = c.gpu_memory;
    if (c.gpu_memory > memory.free + cuda::kContextBytes) {
      return resource_error("--gpu-memory is " + mebibytes(c.gpu_memory) + ", but of the GPU's " +
                            mebibytes(memory.total) + " only " + mebibytes(memory.free) +
                            " are free: give less, or leave it out to use what is free");
    }
  }
  return std::unique_ptr<ops::Backend>(
      std::make_unique<tiers::TieredBackend>(std::move(device), std::move(host), o));
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
  if (c.name == "cuda") return make_cuda(c);
#ifdef ARGON_HAVE_CUDA
  if (c.name == "auto" && cuda_available()) {
    auto cuda = make_cuda(c);
    // A device that this build holds no code for is as good as none.
    if (cuda.ok() || cuda.status().code() != Code::kUnsupported || c.gpu_memory > 0) return cuda;
  }
#endif
  if (c.name != "auto" && c.name != "cpu" && c.name != "metal") {
    return bad_input("--backend is '" + c.name + "': wanted one of " + backend_names());
  }
  if (c.gpu_memory > 0) {
    return bad_input(std::string("--gpu-memory is for a CUDA device, which ") +
                     (c.name == "auto" ? "is not there" : "--backend does not name") + ": leave it out");
  }
  if (c.name == "metal") return make_metal(c);
#if defined(ARGON_HAVE_METAL) && defined(__APPLE__)
  if (c.name == "auto" && metal_available()) return make_metal(c);
#endif
  return make_cpu(c);
}

std::string placement_line(const ops::Backend& backend) {
  const auto* tiered = dynamic_cast<const tiers::TieredBackend*>(&backend);
  if (tiered == nullptr || tiered->plan() == nullptr || tiered->plan()->whole) return "";
  const tiers::Plan& plan = *tiered->plan();
  int64_t resident = 0;
  for (const int64_t n : plan.resident) resident += n;
  const auto& rows = tiered->rows();
  const int64_t computed = rows.device + rows.uploaded + rows.host;
  std::string line = "experts: " + std::to_string(resident) + " of " + std::to_string(plan.experts) +
                     " in the GPU's memory (" + mebibytes(plan.resident_bytes) + ")";
  if (computed > 0) {
    const auto percent = [&](int64_t n) { return std::to_string(100 * n / computed) + " %"; };
    line += "; rows computed there " + percent(rows.device) + ", there after an upload " +
            percent(rows.uploaded) + ", by the CPU " + percent(rows.host) + "; " +
            std::to_string(rows.swaps) + " exchanged; the CPU computed for " + milliseconds(rows.computed) +
            " and waited for the GPU for " + milliseconds(rows.waited);
  }
  return line;
}

}  // namespace argon::app
