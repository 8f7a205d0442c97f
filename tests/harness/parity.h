// The parity test of an operation: every route of its table against the scalar reference, by words. Each case
// is run with its units in one call and in shuffled pieces, as a thread pool would; after each comparison one
// bit is flipped and the comparison must then fail. Frozen: when it fails, the kernel is wrong.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ops/routes.h"
#include "tests/harness/parity_case.h"

namespace argon::testing {

// Runs all units in pieces of random length and order.
template <class Args>
void run_shuffled(void (*run)(const Args&, int64_t, int64_t), const Args& args, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  const int64_t n = units(args);
  for (int64_t at = 0; at < n;) {
    const int64_t end = std::min(n, at + 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(1 + n / 3)));
    pieces.emplace_back(at, end);
    at = end;
  }
  std::shuffle(pieces.begin(), pieces.end(), rng);
  for (const auto& [begin, end] : pieces) run(args, begin, end);
}

template <class Args>
void check_parity(const std::vector<ParityCase<Args>>& cases) {
  uint64_t seed = 1;
  int compared = 0;
  for (const ParityCase<Args>& c : cases) {
    if (left_out(++seed, cases.size())) continue;
    TestArena reference(seed, 0x7fc0dead);
    const Args reference_args = c.make(reference);
    const auto& routes = ops::routes_of(&reference_args);
    const auto& scalar = routes[std::size(routes) - 1];
    scalar.run(reference_args, 0, units(reference_args));
    for (const auto& route : routes) {
      if (route.isa > detect_isa() || c.rows < route.min_rows || c.rows > route.max_rows) continue;
      for (const bool shuffled : {false, true}) {
        TestArena arena(seed, 0x7fc0beef);
        const Args args = c.make(arena);
        if (shuffled) {
          run_shuffled(route.run, args, seed);
        } else {
          route.run(args, 0, units(args));
        }
        const std::string difference = arena.difference(reference);
        ASSERT_EQ(difference, "") << route.name << ", case " << c.name << (shuffled ? ", shuffled" : "");
        ASSERT_TRUE(arena.flip_a_bit(seed * 7919));
        ASSERT_NE(arena.difference(reference), "") << "the harness missed a flipped bit";
        ++compared;
      }
    }
  }
  ASSERT_GT(compared, 0);
}

}  // namespace argon::testing
