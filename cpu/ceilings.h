// What this machine can do at most, measured: the roof over the CPU backend's times.
#pragma once

#include "base/status.h"
#include "base/thread_pool.h"
#include "ops/route.h"

namespace argon {

struct Ceilings {
  double read_bytes_per_second = 0;  // memory read in order by all threads
  // int8 multiply-adds from registers by all threads, with the level's best instruction: full tiles of AMX,
  // VNNI, AVX2's multiplications. NEON's dot product can do more than this says.
  double int8_per_second = 0;
};

// Takes about a second and, for that time, `bytes` of memory (kResource when there is none). Each figure is
// the best of several short runs, since everything else on a machine only lowers it.
Result<Ceilings> measure_ceilings(ThreadPool& pool, ops::Isa isa, size_t bytes = size_t{256} << 20);

}  // namespace argon
