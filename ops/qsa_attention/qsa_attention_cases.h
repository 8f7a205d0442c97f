// Parity cases of attention: one token to several segments, tiles and segments of every remainder, dense and
// selected, both cache types, head sizes and groupings.
#pragma once

#include <algorithm>

#include "ops/matmul/matmul_cases.h"
#include "ops/qsa_attention/qsa_attention.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<QsaAttentionArgs> qsa_attention_cases() {
  testing::ParityCases<QsaAttentionArgs> cases;
  struct Size {
    int64_t T, position0, nq, nkv, dh, budget;
    bool selected;
  };
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (const Size& s :
         {Size{1, 0, 4, 2, 64, 8, false}, Size{3, 30, 4, 2, 64, 8, false}, Size{20, 115, 4, 2, 64, 8, false},
          Size{2, 126, 4, 4, 32, 8, false}, Size{5, 300, 6, 2, 128, 8, false},
          Size{2, 511, 3, 1, 40, 8, false}, Size{2, 700, 4, 2, 256, 40, true},
          Size{4, 161, 4, 2, 32, 8, true}, Size{1, 2100, 24, 2, 256, 512, true}}) {
      cases.push_back(
          {"position " + std::to_string(s.position0) + ", dh " + std::to_string(s.dh) +
               (s.selected ? ", selected" : ""),
           s.T, [=](testing::TestArena& a) {
             const auto n = [](int64_t v) { return static_cast<size_t>(v); };
             const int64_t r = 4, tokens = s.position0 + s.T;
             const auto cache = [&]() -> const void* {
               const size_t count = n(tokens * s.nkv * s.dh);
               const float* values = a.floats(count);
               if (type == KvType::kF32) return values;
               std::vector<uint16_t> halves(count);
               for (size_t i = 0; i < count; ++i) halves[i] = f32_to_f16(values[i]);
               return a.copy(halves);
             };
             std::vector<int32_t> kept, count;
             for (int64_t t = 0; t < s.T; ++t) {
               const int64_t blocks = (s.position0 + t + 1) / r;
               std::vector<int32_t> all(n(blocks));
               for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
               std::shuffle(all.begin(), all.end(), a.rng());
               all.resize(n(s.budget));
               std::sort(all.begin(), all.end());
               kept.insert(kept.end(), all.begin(), all.end());
               count.push_back(s.selected ? static_cast<int32_t>(s.budget) : kAllBlocks);
             }
             const float* q = a.floats(n(s.T * s.nq * 2 * s.dh));
             const void* k = cache();
             const void* v = cache();
             const int32_t* kept_data = a.copy(kept);
             const int32_t* count_data = a.copy(count);
             QsaAttentionArgs args{
                 q,   k,           v,    type,  kept_data, count_data, a.output<float>(n(s.T * s.nq * s.dh)),
                 s.T, s.position0, s.nq, s.nkv, s.dh,      r,          s.budget};
             if (s.dh % 32 == 0) args.out_q = quantized_output(a, s.T * s.nq * s.dh);
             return args;
           }});
    }
  }
  return cases;
}

}  // namespace argon::ops
