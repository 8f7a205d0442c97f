// Parity cases of the row look-up: every weight type, one and four copies.
#pragma once

#include "ops/embed/embed.h"
#include "ops/matmul/matmul_cases.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<EmbedArgs> embed_cases() {
  testing::ParityCases<EmbedArgs> cases;
  for (WeightType type : matmul_case_types()) {
    for (int64_t copies : {1, 4}) {
      cases.push_back(
          {std::string(weight_type_name(type)) + ", copies " + std::to_string(copies), 6,
           [=](testing::TestArena& a) {
             const int64_t K = 2 * std::max<int64_t>(32, weight_type_info(type).block_length);
             const WeightMatrix w = matmul_case_weights(a, type, 9, K);
             const int32_t* ids = a.ints(6, 0, 8);
             return EmbedArgs{w, ids, a.output<float>(static_cast<size_t>(6 * copies * K)), 6, copies};
           }});
    }
  }
  return cases;
}

}  // namespace argon::ops
