// Parity of the device's matrix products: the shared cases, and larger ones that fill the tiles of the prompt
// kernels and leave remainders.
#include "cuda/tests/parity.h"
#include "ops/matmul/matmul_cases.h"

namespace argon::testing {
namespace {

using ops::MatmulArgs;
using ops::MatmulGroupedArgs;

ParityCases<MatmulArgs> large_cases() {
  ParityCases<MatmulArgs> cases;
  for (WeightType type : {WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kIQ4_NL, WeightType::kQ4_0,
                          WeightType::kQ6_K, WeightType::kQ5_K, WeightType::kF32, WeightType::kBF16}) {
    struct Size {
      int64_t M, K, T;
    };
    for (const Size& s : {Size{130, 2560, 1}, Size{200, 1280, 16}, Size{300, 512, 67}, Size{129, 768, 130},
                          Size{256, 2560, 65}, Size{140, 2048, 200}, Size{130, 320, 70}}) {
      if (s.K % weight_type_info(type).block_length != 0) continue;
      cases.push_back({std::string(weight_type_name(type)) + ", M " + std::to_string(s.M) + ", K " +
                           std::to_string(s.K) + ", T " + std::to_string(s.T),
                       s.T, [=](TestArena& a) {
                         MatmulArgs m{};
                         m.w = ops::matmul_case_weights(a, type, s.M, s.K);
                         m.x = ops::matmul_case_input(a, s.T, s.K, &m.q);
                         m.ldy = s.M;
                         m.T = s.T;
                         m.y = a.output<float>(static_cast<size_t>(s.T * m.ldy));
                         return m;
                       }});
    }
  }
  // Float products by the number of rows.
  for (const int64_t M : {1, 4, 16, 25, 48, 100}) {
    for (const int64_t T : {5, 97, 1601}) {
      const int64_t K = 640;
      cases.push_back({"F32, M " + std::to_string(M) + ", T " + std::to_string(T), T, [=](TestArena& a) {
                         MatmulArgs m{};
                         m.w = ops::matmul_case_weights(a, WeightType::kF32, M, K);
                         m.x = ops::matmul_case_input(a, T, K, &m.q);
                         m.ldy = M + 3;
                         m.T = T;
                         m.y = a.output<float>(static_cast<size_t>(T * m.ldy));
                         return m;
                       }});
    }
  }
  return cases;
}

ParityCases<MatmulGroupedArgs> large_grouped_cases() {
  ParityCases<MatmulGroupedArgs> cases;
  for (WeightType type :
       {WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kIQ4_NL, WeightType::kQ4_0, WeightType::kQ6_K}) {
    for (const int64_t S : {6, 40, 400}) {
      for (const int64_t K : {640, 768}) {
        if (K % weight_type_info(type).block_length != 0) continue;
        const bool gather = K == 768;
        cases.push_back(
            {std::string(weight_type_name(type)) + ", S " + std::to_string(S) + ", K " + std::to_string(K), S,
             [=](TestArena& a) {
               const int64_t E = 6, M = 144, T = gather ? S / 2 : S;
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
  }
  return cases;
}

TEST(CudaMatmulParity, Quantize) { check_cuda_parity(ops::quantize_cases()); }
TEST(CudaMatmulParity, Matmul) { check_cuda_parity(ops::matmul_cases()); }
TEST(CudaMatmulParity, MatmulGrouped) { check_cuda_parity(ops::matmul_grouped_cases()); }
TEST(CudaMatmulParity, Large) { check_cuda_parity(large_cases()); }
TEST(CudaMatmulParity, LargeWithoutWarpgroups) {
  if (cuda_backend() == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  cuda_backend()->queue().use_groups(false);
  check_cuda_parity(large_cases());
  cuda_backend()->queue().use_groups(true);
}
TEST(CudaMatmulParity, LargeGrouped) { check_cuda_parity(large_grouped_cases()); }

}  // namespace
}  // namespace argon::testing
