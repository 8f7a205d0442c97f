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
    for (const int64_t T : {5, 97, 131, 1601}) {
      const int64_t K = T == 97 ? 640 : 1024;
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
// Products too large for the scalar reference, several of one input at once: warpgroups against the portable
// kernels, which the cases above check. Tiles that two blocks share, that fill no processor, and neither.
TEST(CudaMatmulParity, ManyTiles) {
  CudaBackend* b = cuda_backend();
  if (b == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  struct Size {
    std::vector<int64_t> rows;
    int64_t K, T;
  };
  for (const Size& s : {Size{{1500}, 1984, 1500}, Size{{2500, 640, 130}, 1280, 900}, Size{{320}, 2560, 500},
                        Size{{640, 640}, 2560, 512}, Size{{1290}, 320, 1800}, Size{{330}, 10240, 300}}) {
    TestArena arena(1, 0x7fc0beef);
    std::vector<MatmulArgs> all;
    const float* x = nullptr;
    ops::QuantizedRows q{};
    for (const int64_t rows : s.rows) {
      MatmulArgs m{};
      m.w = ops::matmul_case_weights(arena, WeightType::kQ8_0, rows, s.K);
      if (x == nullptr) x = ops::matmul_case_input(arena, s.T, s.K, &q);
      m.x = x, m.q = q, m.T = s.T, m.ldy = rows + 1;
      m.y = arena.output<float>(static_cast<size_t>(s.T * m.ldy));
      all.push_back(m);
    }
    for (MatmulArgs& m : all) place_weights(m, *b);
    Mirror mirror(arena, *b);
    std::vector<MatmulArgs> there;
    for (const MatmulArgs& m : all) there.push_back(mirror.translate(m));
    std::vector<std::vector<float>> y[2];
    for (const bool groups : {false, true, true}) {
      b->queue().use_groups(groups);
      b->run_products(there);
      b->queue().use_groups(true);
      y[groups].clear();
      for (const MatmulArgs& m : there) {
        y[groups].emplace_back(static_cast<size_t>(m.T * m.ldy));
        b->read(y[groups].back().data(), m.y, y[groups].back().size() * sizeof(float));
        b->zero(m.y, y[groups].back().size() * sizeof(float));
      }
      ASSERT_TRUE(b->finish().ok());
      for (size_t i = 0; groups && i < there.size(); ++i) {
        for (int64_t t = 0; t < s.T; ++t) {
          const auto at = static_cast<size_t>(t * there[i].ldy);
          ASSERT_EQ(0,
                    std::memcmp(&y[0][i][at], &y[1][i][at], static_cast<size_t>(s.rows[i]) * sizeof(float)))
              << "K " << s.K << ", product " << i << ", row " << t << " of x";
        }
      }
    }
  }
}
TEST(CudaMatmulParity, LargeGrouped) { check_cuda_parity(large_grouped_cases()); }

}  // namespace
}  // namespace argon::testing
