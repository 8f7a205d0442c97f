// The division of memory, and which experts are the hot ones.
#include "tiers/plan.h"

#include <gtest/gtest.h>

namespace argon::tiers {
namespace {

ops::MemoryNeeds needs(int64_t layers, int64_t experts, uint64_t bytes_each) {
  ops::MemoryNeeds n;
  n.weights = 1000, n.working = 200, n.states = 30;
  n.layers.assign(static_cast<size_t>(layers), {experts, bytes_each});
  return n;
}

TEST(Plan, EverythingFits) {
  const auto p = divide(needs(3, 8, 10), 1230 + 240);
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(p->whole);
  EXPECT_EQ(p->resident, (std::vector<int64_t>{8, 8, 8}));
  EXPECT_EQ(p->resident_bytes, 240u);
}

TEST(Plan, OneExpertTooMany) {
  const auto p = divide(needs(3, 8, 10), 1230 + 239);
  ASSERT_TRUE(p.ok());
  EXPECT_FALSE(p->whole);
  EXPECT_EQ(p->resident, (std::vector<int64_t>{8, 7, 7}));  // one less: room to pass through
}

TEST(Plan, EqualSharesAndTheRestToTheFirst) {
  const auto p = divide(needs(3, 8, 10), 1230 + 140);
  ASSERT_TRUE(p.ok());
  // One of them is room for those that pass through.
  EXPECT_EQ(p->passing, 1);
  EXPECT_EQ(p->resident, (std::vector<int64_t>{5, 4, 4}));
  EXPECT_EQ(p->resident_bytes, 130u);
  EXPECT_EQ(p->device_bytes, 1230u + 140);
}

TEST(Plan, TheTableComesLast) {
  ops::MemoryNeeds n = needs(3, 8, 10);
  n.own = 5, n.table = 70;
  const auto without = divide(n, 1235 + 240 + 69), with = divide(n, 1235 + 240 + 70);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_TRUE(without->whole);
  EXPECT_FALSE(without->table);
  EXPECT_EQ(without->device_bytes, 1235u + 240);
  EXPECT_TRUE(with->table);
  EXPECT_EQ(with->device_bytes, 1235u + 240 + 70);
}

TEST(Plan, AnotherModelFitsAsAWholeOrNotAtAll) {
  ops::MemoryNeeds n = needs(3, 8, 10);
  n.table = 70;
  const auto fits = fit_beside(n, 5000, 5000 - 1470), with_table = fit_beside(n, 5000, 5000 - 1540);
  ASSERT_TRUE(fits.ok() && with_table.ok());
  EXPECT_TRUE(fits->whole && !fits->table);
  EXPECT_TRUE(with_table->table);
  for (const uint64_t taken : {uint64_t{5000 - 1469}, uint64_t{5000}, uint64_t{6000}}) {
    const auto none = fit_beside(n, 5000, taken);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().code(), Code::kResource);
  }
  n.layers[0].bytes_each = uint64_t{1} << 30;
  const auto none = fit_beside(n, uint64_t{4} << 30, uint64_t{1} << 30);
  ASSERT_FALSE(none.ok());
  for (const char* part : {"4096 MiB", "1024 MiB are another model's", "needs 8193 MiB", "--gpu-memory",
                           "process of its own", "--backend cpu"})
    EXPECT_NE(none.status().message().find(part), std::string::npos) << none.status().message();
}

TEST(Plan, NothingIsLeftForExperts) {
  const auto p = divide(needs(2, 8, 10), 1230);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->resident, (std::vector<int64_t>{0, 0}));
}

TEST(Plan, NeverOverTheBudget) {
  ops::MemoryNeeds n = needs(0, 0, 0);
  n.layers = {{512, 2764800}, {512, 1740800}, {16, 7}, {1, 1000000}};
  for (uint64_t budget = n.fixed(); budget < n.fixed() + n.experts() + 5000000; budget += 12345677) {
    const auto p = divide(n, budget);
    ASSERT_TRUE(p.ok());
    uint64_t bytes = 0;
    for (size_t i = 0; i < n.layers.size(); ++i) {
      EXPECT_LE(p->resident[i], n.layers[i].experts);
      bytes += static_cast<uint64_t>(p->resident[i]) * n.layers[i].bytes_each;
    }
    EXPECT_EQ(bytes, p->resident_bytes);
    EXPECT_LE(n.fixed() + bytes, budget);
    EXPECT_EQ(p->whole, n.fixed() + n.experts() <= budget);
  }
}

TEST(Plan, SaysWhatIsNeededAtLeast) {
  ops::MemoryNeeds n = needs(1, 8, 10);
  n.weights = uint64_t{5} << 30, n.states = uint64_t{2} << 30, n.working = uint64_t{1} << 30;
  const auto p = divide(n, uint64_t{3} << 30);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.status().code(), Code::kResource);
  for (const char* part : {"3072 MiB", "8192 MiB are needed at least", "5120 MiB", "sequences 2048 MiB",
                           "working memory 1024 MiB", "--gpu-memory", "--context", "--pass"}) {
    EXPECT_NE(p.status().message().find(part), std::string::npos) << part << " in " << p.status().message();
  }
}

TEST(Heat, HotExpertsComeForColdOnes) {
  Heat heat(6);
  heat.add(std::vector<int32_t>{0, 10, 3, 30, 20, 5}, 4);
  const std::vector<int32_t> resident = {0, 1, 2};
  const auto s = heat.swaps(resident, 9);
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0].slot, 0);
  EXPECT_EQ(s[0].expert, 3);
  EXPECT_EQ(s[1].slot, 2);
  EXPECT_EQ(s[1].expert, 4);
  EXPECT_EQ(heat.swaps(resident, 1).size(), 1u);
  EXPECT_TRUE(heat.swaps(resident, 0).empty());
}

TEST(Heat, EquallyHotOnesStay) {
  Heat heat(4);
  heat.add(std::vector<int32_t>{100, 100, 100, 103}, 8);
  EXPECT_TRUE(heat.swaps(std::vector<int32_t>{0, 1}, 4).empty());
}

TEST(Heat, OldUsesFade) {
  Heat heat(2);
  heat.add(std::vector<int32_t>{1000, 0}, 1);
  EXPECT_TRUE(heat.swaps(std::vector<int32_t>{0}, 1).empty());
  for (int i = 0; i < 8; ++i) heat.add(std::vector<int32_t>{0, 10}, Heat::kHalfLife);
  const auto s = heat.swaps(std::vector<int32_t>{0}, 1);
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].expert, 1);
}

}  // namespace
}  // namespace argon::tiers
