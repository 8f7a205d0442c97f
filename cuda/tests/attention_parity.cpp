// Parity of the indexer and attention on the device.
#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/tests/parity.h"
#include "ops/qsa_attention/qsa_attention_cases.h"
#include "ops/qsa_select/qsa_select_cases.h"

namespace argon::testing {
namespace {

TEST(CudaAttentionParity, BlockKeys) { check_cuda_parity(ops::qsa_block_keys_cases()); }
TEST(CudaAttentionParity, Select) { check_cuda_parity(ops::qsa_select_cases()); }
// Passes long enough for the prompt kernel, which the shared cases are too short for.
ParityCases<ops::QsaAttentionArgs> long_passes() {
  ParityCases<ops::QsaAttentionArgs> cases;
  struct Size {
    int64_t T, position0, nq, budget;
  };
  for (const Size& s : {Size{70, 0, 6, 0}, Size{66, 230, 24, 0}, Size{67, 700, 10, 40}}) {
    cases.push_back(
        {"T " + std::to_string(s.T) + ", position " + std::to_string(s.position0), s.T, [=](TestArena& a) {
           const int64_t nkv = 2, dh = 256, r = 4, tokens = s.position0 + s.T;
           const auto n = [](int64_t v) { return static_cast<size_t>(v); };
           const auto cache = [&]() -> const void* {
             const float* values = a.floats(n(tokens * nkv * dh));
             std::vector<uint16_t> halves(n(tokens * nkv * dh));
             for (size_t i = 0; i < halves.size(); ++i) halves[i] = f32_to_f16(values[i]);
             return a.copy(halves);
           };
           // Every third block from the front, so far as the budget reaches.
           std::vector<int32_t> kept, count;
           for (int64_t t = 0; t < s.T; ++t) {
             for (int64_t i = 0; i < s.budget; ++i) kept.push_back(static_cast<int32_t>(3 * i + t % 3));
             count.push_back(s.budget > 0 ? static_cast<int32_t>(s.budget) : ops::kAllBlocks);
           }
           if (kept.empty()) kept.push_back(0);
           const float* q = a.floats(n(s.T * s.nq * 2 * dh));
           const void *k = cache(), *v = cache();
           return ops::QsaAttentionArgs{q,
                                        k,
                                        v,
                                        ops::KvType::kF16,
                                        a.copy(kept),
                                        a.copy(count),
                                        a.output<float>(n(s.T * s.nq * dh)),
                                        s.T,
                                        s.position0,
                                        s.nq,
                                        nkv,
                                        dh,
                                        r,
                                        s.budget};
         }});
  }
  return cases;
}

// Selection for enough tokens for the tiled scores; the last token is alone in its tile.
ParityCases<ops::QsaSelectArgs> long_selections() {
  ParityCases<ops::QsaSelectArgs> cases;
  for (const int64_t position0 : {0, 130, 1999}) {
    cases.push_back(
        {"position " + std::to_string(position0), 69, [=](TestArena& a) {
           const int64_t T = 69, ni = 4, di = 128, r = 4, budget = 20;
           const auto n = [](int64_t v) { return static_cast<size_t>(v); };
           const float* iq = a.floats(n(T * ni * di));
           const float* keys = a.floats(n((position0 + T) / r * di));
           return ops::QsaSelectArgs{
               iq, keys,  a.output<int32_t>(n(T * budget)), a.output<int32_t>(n(T)), T, position0, ni, di,
               r,  budget};
         }});
  }
  return cases;
}

TEST(CudaAttentionParity, LongSelections) { check_cuda_parity(long_selections()); }

// A pass whose scores do not fit the scratch memory at once, cut where a tile of tokens is not full: every
// launch keeps to its own part of the memory, and the kept blocks are those of the pass in one launch.
TEST(CudaAttentionParity, SelectionsInParts) {
  CudaBackend* b = cuda_backend();
  if (b == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  TestArena arena(1, 0x7fc0beef);
  ops::QsaSelectArgs a = long_selections().back().make(arena);
  const int64_t most = (a.position0 + a.T) / a.r, kRows = 65;
  const auto words = static_cast<size_t>(a.T * most), own = static_cast<size_t>(kRows * most);
  Mirror mirror(arena, *b);
  const ops::QsaSelectArgs there = mirror.translate(a);
  const auto results = [&] {
    mirror.copy_back();
    std::vector<int32_t> all(a.kept, a.kept + a.T * a.budget);
    all.insert(all.end(), a.count, a.count + a.T);
    return all;
  };
  cuda::select_by(b->queue(), there, a.T * most);
  const std::vector<int32_t> whole = results();
  const std::vector<uint32_t> pattern(words, 0x5a5a5a5a);
  void* keys = b->queue().scratch(words * sizeof(uint32_t));
  ASSERT_NE(keys, nullptr);
  b->write(keys, pattern.data(), words * sizeof(uint32_t));
  b->write(there.kept, pattern.data(), static_cast<size_t>(a.T * a.budget) * sizeof(int32_t));
  b->write(there.count, pattern.data(), static_cast<size_t>(a.T) * sizeof(int32_t));
  cuda::select_by(b->queue(), there, kRows * most);
  EXPECT_EQ(results(), whole);
  std::vector<uint32_t> after(words);
  b->read(after.data(), keys, words * sizeof(uint32_t));
  EXPECT_TRUE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(own), after.end(),
                         pattern.begin() + static_cast<std::ptrdiff_t>(own)));
  EXPECT_NE(after.front(), 0x5a5a5a5a);
  ASSERT_TRUE(b->finish().ok());
}
TEST(CudaAttentionParity, LongPasses) { check_cuda_parity(long_passes()); }
TEST(CudaAttentionParity, Attention) { check_cuda_parity(ops::qsa_attention_cases()); }

}  // namespace
}  // namespace argon::testing
