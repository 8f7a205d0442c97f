// Parity cases of the gated residual: widths on both sides of sum256, stream counts, with and without apply.
#pragma once

#include "ops/gated_residual/gated_residual.h"
#include "ops/matmul/matmul_cases.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

struct GrCaseSize {
  int64_t T, C, H;
  std::string name() const {
    return "T " + std::to_string(T) + ", C " + std::to_string(C) + ", H " + std::to_string(H);
  }
  size_t wide() const { return static_cast<size_t>(T * C * H); }
  size_t narrow() const { return static_cast<size_t>(T * H); }
};

inline std::vector<GrCaseSize> gr_case_sizes() {
  return {{1, 4, 2560}, {3, 4, 2560}, {1, 4, 256}, {5, 4, 256}, {2, 3, 129},
          {3, 2, 128},  {2, 4, 511},  {2, 1, 513}, {1, 5, 7}};
}

inline testing::ParityCases<GrNormArgs> gr_norm_cases() {
  testing::ParityCases<GrNormArgs> cases;
  for (const GrCaseSize& s : gr_case_sizes()) {
    for (const bool apply : {false, true}) {
      const bool quantize = s.H % 32 == 0;
      cases.push_back({s.name() + (apply ? ", apply" : ""), s.T, [=](testing::TestArena& a) {
                         float* x = a.floats(s.wide());
                         const float* w = a.floats(static_cast<size_t>(s.C * s.H));
                         const float* b = apply ? a.floats(s.narrow()) : nullptr;
                         const float* inj = apply ? a.floats(static_cast<size_t>(s.T * s.C), 3.0f) : nullptr;
                         GrNormArgs g{x, w, b, inj, a.output<float>(s.wide()), s.T, s.C, s.H, 1e-6f};
                         if (quantize) g.out_q = quantized_output(a, s.T * s.C * s.H);
                         return g;
                       }});
    }
  }
  return cases;
}

inline testing::ParityCases<GrApplyArgs> gr_apply_cases() {
  testing::ParityCases<GrApplyArgs> cases;
  for (const GrCaseSize& s : gr_case_sizes()) {
    cases.push_back({s.name(), s.T, [=](testing::TestArena& a) {
                       float* x = a.floats(s.wide());
                       const float* b = a.floats(s.narrow());
                       return GrApplyArgs{x,   b,   a.floats(static_cast<size_t>(s.T * s.C), 3.0f),
                                          s.T, s.C, s.H};
                     }});
  }
  return cases;
}

inline testing::ParityCases<GrGateArgs> gr_gate_cases() {
  testing::ParityCases<GrGateArgs> cases;
  for (int64_t R : {1, 8, 31, 32, 320}) {
    for (const bool inject : {false, true}) {
      cases.push_back({"R " + std::to_string(R) + (inject ? ", inject" : ""), 3, [=](testing::TestArena& a) {
                         float* lo = a.floats(static_cast<size_t>(3 * R), 5.0f);
                         GrGateArgs g{lo, inject ? a.floats(12, 5.0f) : nullptr, 3, 4, R};
                         if (R % 32 == 0) g.out_q = quantized_output(a, 3 * R);
                         return g;
                       }});
    }
  }
  return cases;
}

inline testing::ParityCases<GrMixArgs> gr_mix_cases() {
  testing::ParityCases<GrMixArgs> cases;
  for (const GrCaseSize& s : gr_case_sizes()) {
    cases.push_back({s.name(), s.T, [=](testing::TestArena& a) {
                       const float* up = a.floats(s.wide(), 4.0f);
                       const float* n = a.floats(s.wide());
                       GrMixArgs g{up, n, a.output<float>(s.narrow()), s.T, s.C, s.H};
                       if (s.H % 32 == 0) g.out_q = quantized_output(a, s.T * s.H);
                       return g;
                     }});
  }
  return cases;
}

}  // namespace argon::ops
