// Reads every weight of a file and looks for numbers that are none: for `argon inspect --check`. A NaN or
// infinite scale in a damaged file otherwise shows only when a token meets it, as a non-finite logit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/gguf.h"

namespace argon {

// One tensor's numbers that are NaN or infinite: stored values of a float type; scales and minima, which
// count once for the 16 or 32 values they serve, of a quantised one.
struct BadTensor {
  std::string name;
  uint64_t count;
  int64_t row, column;  // of the first value concerned; rows of all dimensions but the first, counted through
};

struct WeightCheck {
  uint64_t bytes = 0;          // looked at
  uint64_t skipped = 0;        // tensors of types without a decoder (integers, types not computed with)
  std::vector<BadTensor> bad;  // in file order; empty: every number is finite
};

// Reads the tensors' data once, in file order, with all threads of `pool`. `progress` gets bytes done and in
// all between pieces and returns false to stop; then the status is kCancelled. A file that shrinks meanwhile
// ends the process, as with every use of a mapped file.
Result<WeightCheck> check_weights(
    const GgufFile& file, ThreadPool& pool,
    const std::function<bool(uint64_t done, uint64_t total)>& progress = nullptr);

}  // namespace argon
