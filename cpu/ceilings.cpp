#include "cpu/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "cpu/kernels/ceilings.h"

namespace argon {

uint64_t read_memory(const uint8_t* p, size_t n) {
  uint64_t sum[4] = {};
  for (size_t i = 0; i < n; i += 32) {
    for (size_t k = 0; k < 4; ++k) {
      uint64_t v;
      std::memcpy(&v, p + i + 8 * k, sizeof v);
      sum[k] ^= v;
    }
  }
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

uint64_t multiply_int8(int64_t turns) {
  int32_t sum[kInt8PerTurn] = {};
  for (int64_t t = 0; t < turns; ++t) {
    const int8_t w = static_cast<int8_t>(t);
    for (int k = 0; k < kInt8PerTurn; ++k) sum[k] += int32_t{w} * int32_t{static_cast<int8_t>(k)};
  }
  uint64_t all = 0;
  for (int32_t s : sum) all ^= static_cast<uint64_t>(s);
  return all;
}

namespace {

constexpr int kRuns = 7;
constexpr int64_t kPieces = 64;  // of memory, so that a slow thread does not hold up the others

struct Loops {
  uint64_t (*read)(const uint8_t*, size_t);
  uint64_t (*multiply)(int64_t);
  int64_t per_turn, turns;  // products of a turn, turns of a job
};

Loops loops_of([[maybe_unused]] ops::Isa isa) {
#if defined(__x86_64__)
  if (isa >= ops::Isa::kAmx) return {read_memory_avx2, multiply_int8_amx, kInt8PerTurnAmx, 5'000};
  if (isa >= ops::Isa::kAvx512) return {read_memory_avx2, multiply_int8_avx512, kInt8PerTurnAvx512, 50'000};
  if (isa >= ops::Isa::kAvx2) return {read_memory_avx2, multiply_int8_avx2, kInt8PerTurnAvx2, 50'000};
#endif
  return {read_memory, multiply_int8, kInt8PerTurn, 50'000};
}

// The shortest of several runs, in seconds.
template <class Fn>
double best_seconds(Fn&& fn) {
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

Result<Ceilings> measure_ceilings(ThreadPool& pool, ops::Isa isa, size_t bytes) {
  const size_t piece = bytes / kPieces / 256 * 256;
  const std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[piece * kPieces]);
  if (memory == nullptr) {
    return resource_error("cannot get " + std::to_string(bytes >> 20) + " MiB to measure the memory's speed");
  }
  const Loops loops = loops_of(isa);
  std::atomic<uint64_t> kept{0};
  pool.run(kPieces, 1, [&](int64_t begin, int64_t end) {
    std::memset(memory.get() + static_cast<size_t>(begin) * piece, 1,
                static_cast<size_t>(end - begin) * piece);
  });
  Ceilings c;
  c.read_bytes_per_second = static_cast<double>(piece * kPieces) / best_seconds([&] {
                              pool.run(kPieces, 1, [&](int64_t begin, int64_t end) {
                                kept += loops.read(memory.get() + static_cast<size_t>(begin) * piece,
                                                   static_cast<size_t>(end - begin) * piece);
                              });
                            });
  const int64_t jobs = 16 * pool.size(), turns = loops.turns;
  c.int8_per_second =
      static_cast<double>(jobs * turns * loops.per_turn) / best_seconds([&] {
        pool.run(jobs, 1, [&](int64_t begin, int64_t end) { kept += loops.multiply((end - begin) * turns); });
      });
  return c;
}

}  // namespace argon
