// Parity cases of the indexer: block sizes, cache types, budgets at and below the number of blocks; scores
// random (ties of zeros included, since relu clips), nearly equal and all equal.
#pragma once

#include "ops/qsa_select/qsa_select.h"
#include "ops/rope/rope.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<QsaBlockKeysArgs> qsa_block_keys_cases() {
  testing::ParityCases<QsaBlockKeysArgs> cases;
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int64_t di : {32, 40, 64, 128}) {
      for (int64_t r : {1, 4, 5}) {
        cases.push_back(
            {"di " + std::to_string(di) + ", r " + std::to_string(r), 7, [=](testing::TestArena& a) {
               const int64_t rot = 16, tokens = 10 * r;
               std::vector<float> table(static_cast<size_t>(tokens * rot));
               rope_fill(table.data(), 0, tokens, rot, 1e7f);
               const size_t n = static_cast<size_t>(tokens * di);
               const void* raw = nullptr;
               if (type == KvType::kF32) {
                 raw = a.floats(n);
               } else {
                 std::vector<uint16_t> halves(n);
                 for (uint16_t& h : halves) h = static_cast<uint16_t>(a.rng()() & 0xbfff);  // finite
                 raw = a.copy(halves);
               }
               const float* w = a.floats(static_cast<size_t>(di));
               return QsaBlockKeysArgs{
                   raw, type, w,   a.copy(table), a.output<float>(static_cast<size_t>(10 * di)), 2, 7,
                   r,   di,   rot, 1e-6f};
             }});
      }
    }
  }
  return cases;
}

inline testing::ParityCases<QsaSelectArgs> qsa_select_cases() {
  testing::ParityCases<QsaSelectArgs> cases;
  struct Size {
    int64_t T, position0, ni, di, r, budget;
    float spread;  // of the keys; 0: all keys equal
  };
  for (const Size& s :
       {Size{3, 0, 2, 32, 4, 8, 1.0f}, Size{9, 28, 2, 32, 4, 8, 1.0f}, Size{5, 300, 2, 64, 4, 8, 1.0f},
        Size{4, 4099, 4, 128, 4, 512, 1.0f}, Size{2, 1000, 4, 128, 4, 32, 1e-4f},
        Size{3, 515, 3, 40, 5, 16, 0.0f}, Size{1, 30000, 1, 32, 1, 512, 1.0f}}) {
    cases.push_back({"position " + std::to_string(s.position0) + ", budget " + std::to_string(s.budget), s.T,
                     [=](testing::TestArena& a) {
                       const auto n = [](int64_t v) { return static_cast<size_t>(v); };
                       const int64_t blocks = (s.position0 + s.T) / s.r + 1;
                       float* iq = a.floats(n(s.T * s.ni * s.di));
                       float* keys = a.floats(n(blocks * s.di), s.spread);
                       for (int64_t b = 1; s.spread < 1.0f && b < blocks; ++b) {
                         for (int64_t i = 0; i < s.di; ++i)
                           keys[b * s.di + i] = keys[i] + (s.spread == 0.0f ? 0.0f : keys[b * s.di + i]);
                       }
                       return QsaSelectArgs{iq,
                                            keys,
                                            a.output<int32_t>(n(s.T * s.budget)),
                                            a.output<int32_t>(n(s.T)),
                                            s.T,
                                            s.position0,
                                            s.ni,
                                            s.di,
                                            s.r,
                                            s.budget};
                     }});
  }
  return cases;
}

}  // namespace argon::ops
