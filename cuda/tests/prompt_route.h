// gdn_prompt_parity and comb_fold_parity on an NVIDIA GPU (--backend cuda): the same inputs, references and
// reports as for Metal (metal/tests), the CUDA backend's kernels, and with `ab` the time of kept kernels
// against other forms of them, measured by events in alternating pairs.
#pragma once

#include <string>
#include <vector>

#include "metal/tests/comb_run.h"
#include "metal/tests/gdn_run.h"

namespace argon::testing {

struct GdnRoute {
  std::vector<metal::GdnSize> sizes;  // compared
  std::vector<uint32_t> ab;           // timed at (16,48) when all was equal
  int layers;                         // a timed sample
  std::string report;                 // a path, or empty
};
// The exit code: 0, 1 for a difference or an error, kNoDevice.
inline constexpr int kNoDevice = 77;
int gdn_prompt_on_cuda(const GdnRoute&);

struct CombCase {
  metal::CombSize size;
  metal::Absent absent;
};
struct CombRoute {
  std::vector<CombCase> cases;
  std::vector<uint32_t> ab;  // timed at n = 2560, C = 4, 10 slots
  std::string report;
};
int comb_fold_on_cuda(const CombRoute&);

}  // namespace argon::testing
