#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace argon {
namespace {

using Ids = std::vector<int32_t>;
using Rules = std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>;  // pair -> rank, result

// The definition: look for the lowest rank, leftmost first, join, begin again.
Ids naive(Ids ids, const Rules& rules) {
  while (true) {
    size_t best = ids.size();
    int32_t best_rank = MergeTable::kNoRank;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && rule->second.first < best_rank) best = i, best_rank = rule->second.first;
    }
    if (best == ids.size()) return ids;
    ids[best] = rules.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

struct RandomMerges {
  Rules rules;
  MergeTable table;
  std::vector<std::string> texts;
};

// Merges over an alphabet of a few letters: texts grow, several pairs may make the same text, ranks are
// shuffled.
RandomMerges random_merges(std::mt19937& rng) {
  RandomMerges m;
  const size_t letters = 1 + rng() % 3;
  for (size_t i = 0; i < letters; ++i) m.texts.emplace_back(1, static_cast<char>('a' + i));
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < letters; ++i) ids[m.texts[i]] = static_cast<int32_t>(i);
  std::vector<std::array<int32_t, 3>> found;
  const size_t count = rng() % 40;
  for (size_t i = 0; i < count; ++i) {
    const auto left = static_cast<int32_t>(rng() % m.texts.size()),
               right = static_cast<int32_t>(rng() % m.texts.size());
    const std::string joined = m.texts[static_cast<size_t>(left)] + m.texts[static_cast<size_t>(right)];
    if (joined.size() > 12 || m.rules.contains({left, right})) continue;
    const auto [entry, is_new] = ids.try_emplace(joined, static_cast<int32_t>(m.texts.size()));
    if (is_new) m.texts.push_back(joined);
    m.rules[{left, right}] = {0, entry->second};
    found.push_back({left, right, entry->second});
  }
  std::shuffle(found.begin(), found.end(), rng);
  m.table.reserve(found.size());
  for (size_t rank = 0; rank < found.size(); ++rank) {
    const auto [left, right, result] = found[rank];
    m.rules[{left, right}] = {static_cast<int32_t>(rank), result};
    EXPECT_EQ(m.table.insert({left, right, static_cast<int32_t>(rank), result}), -1);
  }
  return m;
}

TEST(Bpe, BothWaysEqualTheDefinition) {
  std::mt19937 rng(3);
  for (int round = 0; round < 3000; ++round) {
    const RandomMerges m = random_merges(rng);
    BpeMerger merger(m.table);
    for (int i = 0; i < 4; ++i) {
      Ids ids(rng() % 60);
      const size_t letters = std::min<size_t>(m.texts.size(), 1 + rng() % 3);
      for (int32_t& id : ids) id = static_cast<int32_t>(rng() % letters);
      const Ids expected = naive(ids, m.rules);
      Ids by_search, by_heap;
      merger.merge(ids, by_search, 1000);
      merger.merge(ids, by_heap, 0);
      ASSERT_EQ(by_search, expected);
      ASSERT_EQ(by_heap, expected);
    }
  }
}

TEST(Bpe, TableFindsWhatWasPutIn) {
  MergeTable table;
  EXPECT_EQ(table.find(0, 0), nullptr);
  table.reserve(1000);
  for (int32_t i = 0; i < 1000; ++i) EXPECT_EQ(table.insert({i * 7, i * 3, i, i + 1}), -1);
  EXPECT_EQ(table.insert({7, 3, 99, 99}), 1);  // the pair is there, with rank 1
  for (int32_t i = 0; i < 1000; ++i) {
    const MergeTable::Merge* m = table.find(i * 7, i * 3);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->rank, i);
    EXPECT_EQ(m->result, i + 1);
    EXPECT_EQ(table.find(i * 7, i * 3 + 1), nullptr);
  }
}

TEST(Bpe, StepsGrowLinearlyOnOneLongPiece) {
  // a+a, aa+aa, ... : every level halves the piece.
  MergeTable table;
  table.reserve(10);
  for (int32_t i = 0; i < 10; ++i) ASSERT_EQ(table.insert({i, i, i, i + 1}), -1);
  const auto steps = [&](size_t n) {
    BpeMerger merger(table);
    Ids out;
    merger.merge(Ids(n, 0), out);
    EXPECT_EQ(out.size(), n / 1024);
    return merger.steps();
  };
  EXPECT_LT(steps(size_t{1} << 20), 17 * steps(size_t{1} << 16));
}

}  // namespace
}  // namespace argon
