#include <numeric>

#include "ops/qsa_select/qsa_select_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(QsaSelectParity, QsaBlockKeys) { check_parity(ops::qsa_block_keys_cases()); }
TEST(QsaSelectParity, QsaSelect) { check_parity(ops::qsa_select_cases()); }

// What NUMERICS.md asks for: 65,536 scores that differ in few bits, all equal, zeros of both signs; against a
// full sort.
TEST(QsaSelectParity, SelectionEqualsAFullSort) {
  constexpr int64_t n = 65536;
  std::mt19937_64 rng(5);
  std::vector<float> near(n), equal(n, 1.5f), zeros(n);
  for (float& s : near) s = 1.0f + 0.245f * static_cast<float>(rng() >> 40) * 0x1p-24f;
  for (float& s : zeros) s = rng() % 2 == 0 ? 0.0f : -0.0f;
  for (const std::vector<float>* scores : {&near, &equal, &zeros}) {
    for (int64_t budget : {1, 511, 512, 65535}) {
      std::vector<int32_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return (*scores)[static_cast<size_t>(a)] > (*scores)[static_cast<size_t>(b)];
      });
      order.resize(static_cast<size_t>(budget));
      std::sort(order.begin(), order.end());
      std::vector<int32_t> kept(static_cast<size_t>(budget), -1);
      ops::select_blocks(scores->data(), n, budget, kept.data());
      ASSERT_EQ(kept, order) << "budget " << budget;
    }
  }
}

}  // namespace
}  // namespace argon::testing
