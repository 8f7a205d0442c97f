// Parity of the indexer and the attention on Metal kernels with the scalar references: the cases of every
// backend, and more of the shapes where the kernels change their way.
#include "metal/tests/ops_parity.h"
#include "ops/qsa_attention/qsa_attention_cases.h"
#include "ops/qsa_select/qsa_select_cases.h"

namespace argon::testing {
namespace {

using ops::KvType;
using ops::QsaAttentionArgs;
using ops::QsaBlockKeysArgs;
using ops::QsaSelectArgs;

size_t n(int64_t v) { return static_cast<size_t>(v); }

// Queries that attend to everything they see, as the model asks while all blocks fit the budget: few of them
// (each segment by itself) and many, heads of every kernel, more query heads than a threadgroup has.
ParityCases<QsaAttentionArgs> dense_cases() {
  struct Size {
    int64_t T, position0, nq, nkv, dh;
  };
  ParityCases<QsaAttentionArgs> cases;
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (const Size& s : {Size{1, 300, 4, 2, 64}, Size{2, 255, 4, 2, 128}, Size{1, 127, 2, 1, 256},
                          Size{1, 128, 6, 3, 40}, Size{1, 150, 2, 2, 512}, Size{3, 140, 2, 1, 576},
                          Size{1, 200, 20, 1, 64}, Size{40, 120, 4, 2, 64}, Size{1, 140, 3, 1, 384}}) {
      cases.push_back({"dense, position " + std::to_string(s.position0) + ", dh " + std::to_string(s.dh), s.T,
                       [=](TestArena& a) {
                         const int64_t tokens = s.position0 + s.T;
                         const auto cache = [&]() -> const void* {
                           const float* values = a.floats(n(tokens * s.nkv * s.dh));
                           if (type == KvType::kF32) return values;
                           std::vector<uint16_t> halves(n(tokens * s.nkv * s.dh));
                           for (size_t i = 0; i < halves.size(); ++i) halves[i] = f32_to_f16(values[i]);
                           return a.copy(halves);
                         };
                         QsaAttentionArgs m{};
                         m.q = a.floats(n(s.T * s.nq * 2 * s.dh));
                         m.k = cache();
                         m.v = cache();
                         m.type = type;
                         m.budget = 512;
                         m.r = 4;
                         m.kept = a.output<int32_t>(n(s.T * m.budget));
                         m.count = a.copy(std::vector<int32_t>(n(s.T), ops::kAllBlocks));
                         m.out = a.output<float>(n(s.T * s.nq * s.dh));
                         m.T = s.T, m.position0 = s.position0, m.nq = s.nq, m.nkv = s.nkv, m.dh = s.dh;
                         return m;
                       }});
    }
  }
  return cases;
}

ParityCases<QsaBlockKeysArgs> wide_keys() {
  ParityCases<QsaBlockKeysArgs> cases;
  for (int64_t di : {512, 648}) {
    cases.push_back({"di " + std::to_string(di), 5, [=](TestArena& a) {
                       std::vector<float> table(n(12 * 32));
                       ops::rope_fill(table.data(), 0, 12, 32, 1e4f);
                       const float* raw = a.floats(n(12 * di));
                       const float* w = a.floats(n(di));
                       const float* rope = a.copy(table);
                       return QsaBlockKeysArgs{raw, KvType::kF32, w,  rope, a.output<float>(n(6 * di)), 1, 5,
                                               2,   di,           32, 1e-6f};
                     }});
  }
  return cases;
}

// Keys too wide to be staged; more tokens than a threadgroup has simdgroups, of which the first ones keep all
// blocks; many equal scores round the last one that is kept.
ParityCases<QsaSelectArgs> more_selections() {
  struct Size {
    int64_t T, position0, ni, di, r, budget, distinct;
  };
  ParityCases<QsaSelectArgs> cases;
  for (const Size& s : {Size{3, 200, 2, 136, 4, 16, 1000}, Size{2, 150, 2, 512, 2, 16, 1000},
                        Size{21, 60, 2, 64, 4, 16, 1000}, Size{2, 2100, 2, 64, 1, 700, 9},
                        Size{9, 33, 1, 32, 1, 33, 2}, Size{1, 264, 1, 32, 1, 1, 3}}) {
    cases.push_back(
        {"position " + std::to_string(s.position0) + ", di " + std::to_string(s.di) + ", " +
             std::to_string(s.distinct) + " distinct keys",
         s.T, [=](TestArena& a) {
           const int64_t blocks = (s.position0 + s.T) / s.r;
           QsaSelectArgs m{};
           m.iq = a.floats(n(s.T * s.ni * s.di));
           const float* some = a.floats(n(std::min(s.distinct, blocks) * s.di));
           std::vector<float> keys;
           for (int64_t b = 0; b < blocks; ++b) {
             const float* from =
                 some +
                 static_cast<int64_t>(a.rng()() % static_cast<uint64_t>(std::min(s.distinct, blocks))) * s.di;
             keys.insert(keys.end(), from, from + s.di);
           }
           m.keys = a.copy(keys);
           m.kept = a.output<int32_t>(n(s.T * s.budget));
           m.count = a.output<int32_t>(n(s.T));
           m.T = s.T, m.position0 = s.position0, m.ni = s.ni, m.di = s.di, m.r = s.r;
           m.budget = s.budget;
           return m;
         }});
  }
  return cases;
}

TEST(MetalAttentionParity, BlockKeys) { check_metal_parity(ops::qsa_block_keys_cases(), 5); }
TEST(MetalAttentionParity, WideBlockKeys) { check_metal_parity(wide_keys(), 2); }
TEST(MetalAttentionParity, Select) { check_metal_parity(ops::qsa_select_cases(), 3); }
TEST(MetalAttentionParity, MoreSelections) { check_metal_parity(more_selections(), 2); }
TEST(MetalAttentionParity, Attention) { check_metal_parity(ops::qsa_attention_cases(), 6); }
TEST(MetalAttentionParity, DenseAttention) { check_metal_parity(dense_cases(), 4); }

}  // namespace
}  // namespace argon::testing
