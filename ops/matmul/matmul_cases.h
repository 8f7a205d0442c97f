// Parity cases of the matrix products: every weight type, lengths whose blocks do not fill the 8 segments
// evenly, row counts that are no multiple of a tile, one token to many, inputs with zero blocks and large
// ones.
#pragma once

#include "formats/test_rows.h"
#include "ops/matmul/matmul.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

// An output for the quantised form of `values` values, for cases of operations that give it.
inline QuantizedRows quantized_output(testing::TestArena& a, int64_t values) {
  const auto n = [](int64_t v) { return static_cast<size_t>(v); };
  return {a.output<int8_t>(n(values)), a.output<float>(n(values / 32)), a.output<int16_t>(n(values / 16))};
}

inline std::vector<WeightType> matmul_case_types() {
  std::vector<WeightType> types;
  for (const WeightTypeInfo& t : kWeightTypes) {
    if (find_format(t.type) != nullptr) types.push_back(t.type);
  }
  return types;
}

inline WeightMatrix matmul_case_weights(testing::TestArena& a, WeightType type, int64_t rows, int64_t cols) {
  WeightMatrix w;
  w.data = a.copy(random_weight_rows(type, rows * cols, 0.1f, a.rng()));
  w.type = type;
  w.rows = rows;
  w.cols = cols;
  w.row_bytes = weight_row_bytes(type, cols);
  return w;
}

// Inputs [T][K], the first block of each row zero, and their quantised form by the reference.
inline float* matmul_case_input(testing::TestArena& a, int64_t T, int64_t K, QuantizedRows* q) {
  float* x = a.floats(static_cast<size_t>(T * K));
  if (K % 32 != 0) return x;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t i = 0; i < 32; ++i) x[t * K + i] = 0.0f;
  }
  q->codes = a.output<int8_t>(static_cast<size_t>(T * K));
  q->d = a.output<float>(static_cast<size_t>(T * K / 32));
  q->sums = a.output<int16_t>(static_cast<size_t>(T * K / 16));
  quantize_ref({x, *q, T, K}, 0, T);
  return x;
}

inline testing::ParityCases<QuantizeArgs> quantize_cases() {
  testing::ParityCases<QuantizeArgs> cases;
  for (int64_t K : {32, 96, 640, 2560}) {
    for (float scale : {1.0f, 1e-31f, 1e30f}) {
      cases.push_back(
          {"K " + std::to_string(K) + ", scale " + std::to_string(scale), 3, [=](testing::TestArena& a) {
             const float* x = a.floats(static_cast<size_t>(3 * K), scale);
             QuantizedRows q;
             q.codes = a.output<int8_t>(static_cast<size_t>(3 * K));
             q.d = a.output<float>(static_cast<size_t>(3 * K / 32));
             q.sums = a.output<int16_t>(static_cast<size_t>(3 * K / 16));
             return QuantizeArgs{x, q, 3, K};
           }});
    }
  }
  return cases;
}

inline testing::ParityCases<MatmulArgs> matmul_cases() {
  testing::ParityCases<MatmulArgs> cases;
  for (WeightType type : matmul_case_types()) {
    const int64_t block = weight_type_info(type).block_length;
    for (int64_t unit : {1, 2, 3, 5, 8, 9, 20}) {
      const int64_t K = unit * std::max<int64_t>(block, 32) + (is_plain_float(type) && unit == 3 ? 5 : 0);
      for (int64_t T : {1, 2, 3, 5, 8, 13, 33}) {
        const int64_t M = T == 1 ? 37 : T == 8 ? 16 : 21;
        cases.push_back(
            {std::string(weight_type_name(type)) + ", K " + std::to_string(K) + ", T " + std::to_string(T), T,
             [=](testing::TestArena& a) {
               MatmulArgs m{};
               m.w = matmul_case_weights(a, type, M, K);
               m.x = matmul_case_input(a, T, K, &m.q);
               m.ldy = M + 3;
               m.T = T;
               m.y = a.output<float>(static_cast<size_t>(T * m.ldy));
               return m;
             }});
      }
    }
  }
  return cases;
}

inline testing::ParityCases<MatmulGroupedArgs> matmul_grouped_cases() {
  testing::ParityCases<MatmulGroupedArgs> cases;
  for (WeightType type : matmul_case_types()) {
    for (const bool gather : {false, true}) {
      const int64_t E = 5, M = 21, K = 3 * std::max<int64_t>(32, weight_type_info(type).block_length);
      cases.push_back({std::string(weight_type_name(type)) + (gather ? ", gathered" : ""), 30,
                       [=](testing::TestArena& a) {
                         const int64_t S = 30, T = gather ? 11 : S;
                         MatmulGroupedArgs m{};
                         m.w.first = matmul_case_weights(a, type, E * M, K);
                         m.w.first.rows = M;
                         m.w.experts = E;
                         m.w.expert_bytes = static_cast<size_t>(M) * m.w.first.row_bytes;
                         m.x = matmul_case_input(a, T, K, &m.q);
                         m.expert_begin = a.copy(std::vector<int32_t>{0, 1, 1, 18, 20, 30});
                         m.slot_row = gather ? a.ints(static_cast<size_t>(S), 0, static_cast<int32_t>(T - 1))
                                             : nullptr;
                         m.y = a.output<float>(static_cast<size_t>(S * M));
                         m.S = S;
                         return m;
                       }});
    }
  }
  return cases;
}

}  // namespace argon::ops
