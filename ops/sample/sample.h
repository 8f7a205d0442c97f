// Choosing the next token from logits, exactly: every sum and cut works on integers, so no order of summation
// matters.
//
// In this order: penalties (repeat: l > 0 ? l/r : l*r for each token in the window; presence: l - p, once per
// token); temperature 0: the largest logit, ties to the lower id. Otherwise l/temperature; p_i =
// uint64(rint(exp(l_i-max)*2^40)), tokens with p = 0 cannot be chosen; sorted by (p descending, id
// ascending); top_k: the first k; top_p: the shortest prefix with at least
// floor(total*rint(top_p*2^32)/2^32), never empty; min_p: those with p >= rint(min_p*2^40). draw = high 64
// bits of philox64*total of what is left; the first token whose running sum exceeds draw. philox64 = words 0
// and 1 (low first) of Philox4x32-10, key = seed (low word first), counter = (position low, position high,
// choice, 0): the same seed, position and choice give the same draw whatever happened before.
//
// Source  Philox: Salmon et al. 2011; NUMERICS.md "Operations" (sampling).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace argon::ops {

struct SampleOptions {
  float temperature = 0.0f;       // >= 0; 0 is greedy
  int32_t top_k = 0;              // 0: off
  float top_p = 1.0f;             // (0, 1]; 1: off
  float min_p = 0.0f;             // [0, 1); 0: off
  float repeat_penalty = 1.0f;    // > 0; 1: off
  float presence_penalty = 0.0f;  // any finite value; 0: off
  int32_t penalty_window = 64;    // how many of the last tokens the penalties look at; 0: all
  uint64_t seed = 0;
};

// kBadInput naming the option, what was found and what was wanted.
Status check(const SampleOptions& options);

// Index of the largest value, ties to the lower index; n >= 1.
int32_t argmax(std::span<const float> logits);

// The token to put at `position`, given the sequence so far (oldest first). logits is changed by the
// penalties. nullopt when a logit is not finite.
std::optional<int32_t> sample(std::span<float> logits, std::span<const int32_t> history, uint64_t position,
                              uint32_t choice, const SampleOptions& options);

// The first 64 bits of Philox4x32-10.
uint64_t philox64(uint64_t key, uint64_t position, uint32_t choice);

// Is any penalty on?
bool penalizes(const SampleOptions& options);
// The ids that the penalties of `options` change in a vocabulary of V, given the sequence so far: ascending,
// each once; none when no penalty is on.
std::vector<int32_t> penalized_ids(std::span<const int32_t> history, const SampleOptions& options, int64_t V);

// sample() as an operation, for logits in a backend's memory.
struct SampleArgs {
  float* logits;             // [V], V >= 1; the penalties change them
  const int32_t* penalized;  // [count], of penalized_ids
  int32_t* token;            // [1]: the id, or -1 when a logit is not finite
  int64_t V, count;
  uint64_t random;  // philox64 of the options' seed
  SampleOptions options;
};

// Its largest part: p of every logit, as the float that it is: rint(exp(l/temperature - max)*2^40), 0 where
// that is no number. Units: logits.
struct SampleWeightsArgs {
  const float* logits;
  float* p;
  int64_t V;
  float temperature, max;
};
inline int64_t units(const SampleWeightsArgs& a) { return a.V; }
void sample_weights_ref(const SampleWeightsArgs&, int64_t begin, int64_t end);

// sample() of args' memory, the host's, with the references or with `weights` for that part.
void sample_ref(const SampleArgs& args);
void sample_with(const SampleArgs& args, const std::function<void(const SampleWeightsArgs&)>& weights);

}  // namespace argon::ops
