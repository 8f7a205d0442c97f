// Parity of the matrix products on Metal kernels with the scalar references: the cases of every backend, and
// larger ones that fill the kernels' tiles and leave remainders.
#include "metal/tests/ops_parity.h"
#include "ops/matmul/matmul_cases.h"

namespace argon::testing {
namespace {

using ops::MatmulArgs;
using ops::MatmulGroupedArgs;

struct Size {
  int64_t M, K, T;
};

ParityCase<MatmulArgs> dense(WeightType type, const Size& s) {
  return {std::string(weight_type_name(type)) + ", M " + std::to_string(s.M) + ", K " + std::to_string(s.K) +
              ", T " + std::to_string(s.T),
          s.T, [=](TestArena& a) {
            MatmulArgs m{};
            m.w = ops::matmul_case_weights(a, type, s.M, s.K);
            m.x = ops::matmul_case_input(a, s.T, s.K, &m.q);
            m.ldy = s.M + 1;
            m.T = s.T;
            m.y = a.output<float>(static_cast<size_t>(s.T * m.ldy));
            return m;
          }};
}

// Every type at a step's and a prompt's sizes, with more blocks than lanes and segments of unequal length.
ParityCases<MatmulArgs> large_cases() {
  ParityCases<MatmulArgs> cases;
  for (WeightType type : ops::matmul_case_types()) {
    for (const Size& s : {Size{70, 2304, 1}, Size{33, 1280, 6}, Size{67, 768, 45}})
      cases.push_back(dense(type, s));
  }
  return cases;
}

// S slots over 6 experts, of which two have none: with few slots each goes by itself.
ParityCases<MatmulGroupedArgs> large_grouped_cases() {
  ParityCases<MatmulGroupedArgs> cases;
  for (WeightType type : ops::matmul_case_types()) {
    for (const int64_t S : {2, 70}) {
      const bool gather = S == 2 || static_cast<uint32_t>(type) % 2 == 0;
      cases.push_back(
          {std::string(weight_type_name(type)) + ", S " + std::to_string(S), S, [=](TestArena& a) {
             const int64_t E = 6, M = 37, K = 512, T = gather ? S / 2 : S;
             MatmulGroupedArgs m{};
             m.w.first = ops::matmul_case_weights(a, type, E * M, K);
             m.w.first.rows = M;
             m.w.experts = E;
             m.w.expert_bytes = static_cast<size_t>(M) * m.w.first.row_bytes;
             m.x = ops::matmul_case_input(a, T, K, &m.q);
             const auto n = static_cast<int32_t>(S);
             m.expert_begin = a.copy(std::vector<int32_t>{0, n / 6, n / 6, n / 2, n / 2 + 1, n, n});
             m.slot_row = gather ? a.ints(static_cast<size_t>(S), 0, static_cast<int32_t>(T - 1)) : nullptr;
             m.y = a.output<float>(static_cast<size_t>(S * M));
             m.S = S;
             return m;
           }});
    }
  }
  return cases;
}

// No slot at all: nothing may be written.
TEST(MetalMatmulParity, NoSlots) {
  ParityCases<MatmulGroupedArgs> cases;
  cases.push_back({"S 0", 0, [](TestArena& a) {
                     MatmulGroupedArgs m{};
                     m.w.first = ops::matmul_case_weights(a, WeightType::kQ8_0, 2 * 8, 32);
                     m.w.first.rows = 8;
                     m.w.experts = 2;
                     m.w.expert_bytes = 8 * m.w.first.row_bytes;
                     m.x = ops::matmul_case_input(a, 1, 32, &m.q);
                     m.expert_begin = a.copy(std::vector<int32_t>{0, 0, 0});
                     m.y = a.output<float>(8);
                     return m;
                   }});
  check_metal_parity(cases, 1);
}

TEST(MetalMatmulParity, Quantize) { check_metal_parity(ops::quantize_cases(), 5); }
// Every second case: lengths and row counts alternate from type to type.
TEST(MetalMatmulParity, Matmul) {
  ParityCases<MatmulArgs> cases;
  const ParityCases<MatmulArgs> all = ops::matmul_cases();
  for (size_t i = 0; i < all.size(); i += 2) cases.push_back(all[i]);
  check_metal_parity(cases, 40);
}
TEST(MetalMatmulParity, MatmulGrouped) { check_metal_parity(ops::matmul_grouped_cases(), 12); }
TEST(MetalMatmulParity, Large) { check_metal_parity(large_cases(), 13); }
TEST(MetalMatmulParity, LargeGrouped) { check_metal_parity(large_grouped_cases(), 11); }

}  // namespace
}  // namespace argon::testing
