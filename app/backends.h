// Which machine computes: the backends of this build, chosen by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ops/backend.h"
#include "ops/route.h"

namespace argon::app {

struct BackendChoice {
  std::string name = "auto";  // auto, cpu, cuda or metal
  int threads = 0;            // 0: the processors this process may use
  std::string isa;            // empty: the machine's best
};

// The threads and instruction set that the CPU backend takes for a choice. Errors as of make_backend.
struct CpuChoice {
  int threads;
  ops::Isa isa;
};
Result<CpuChoice> cpu_choice(const BackendChoice& choice);

// "auto, cpu, ..." of this build.
std::string backend_names();

// auto takes a CUDA device, else a Mac's GPU, else the CPU. kBadInput for an unknown name or instruction set;
// kUnsupported when this build or machine lacks what was asked for, saying how to get it.
Result<std::unique_ptr<ops::Backend>> make_backend(const BackendChoice& choice);

}  // namespace argon::app
