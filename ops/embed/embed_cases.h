// Parity cases of the row look-up: every weight type, one and four copies.
#pragma once

#include "ops/embed/embed.h"
#include "ops/matmul/matmul_cases.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<EmbedArgs> embed_cases() {
  testing::ParityCases<EmbedArgs> cases;
  for (WeightType type : matmul_case_types()) {
    // 520 rows: 1040 blocks of 32 or more.
    for (const auto& [n, copies] : {std::pair<int64_t, int64_t>{6, 1}, {6, 4}, {520, 4}}) {
      cases.push_back({std::string(weight_type_name(type)) + ", rows " + std::to_string(n) + ", copies " +
                           std::to_string(copies),
                       n, [=, n = n, copies = copies](testing::TestArena& a) {
                         const int64_t K = 2 * std::max<int64_t>(32, weight_type_info(type).block_length);
                         const WeightMatrix w = matmul_case_weights(a, type, 9, K);
                         const int32_t* ids = a.ints(static_cast<size_t>(n), 0, 8);
                         float* y = a.output<float>(static_cast<size_t>(n * copies * K));
                         return EmbedArgs{w, ids, y, n, copies};
                       }});
    }
  }
  return cases;
}

}  // namespace argon::ops
