// The next token from logits (ops/sample/sample.h), on integers throughout, so any order of counting gives
// the same token.
//
// A candidate's p is a float's value, so its bits order it: key = bits of p above those of 1, plus 1; 0 is no
// candidate. Every cut (top-k, top-p) and the draw ask for the same thing: how many of the candidates,
// largest first and equal ones by id, until their number or their sum reaches a target. Counts and sums by
// the key's upper bits come from all blocks; one block then goes down through the two lower parts of the key,
// reading only the keys again.
//
// Bound: latency. V logits (1 MB at 248320) are read by all blocks twice and their keys by one block two to
// seven times.
#include <bit>
#include <cmath>
#include <cstddef>

#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256, kPerBlock = 2048, kPickThreads = 1024;
constexpr int kLowBits = 9, kLowBins = 1 << kLowBits;  // of each of the two lower parts of a key
constexpr int kBins = 1312;                            // p is at most a little above 2^40
constexpr uint32_t kOne = 0x3f800000u;

struct Sum {
  uint64_t count, total;
};
__device__ inline Sum operator+(Sum a, Sum b) { return {a.count + b.count, a.total + b.total}; }

// Of a block's logits: the largest value and its id as one number, larger values and then lower ids first.
struct Best {
  uint64_t rank;
  uint32_t finite;
};

struct SampleParams {
  float* logits;
  const int32_t* penalized;
  int32_t* token;
  Best* best;                 // [blocks]
  unsigned long long* total;  // [kBins]
  unsigned* count;            // [kBins]
  uint32_t* keys;             // [V]
  int V, penalized_count, blocks;
  float repeat, presence, temperature;
  uint64_t random, top_k, top_p;  // top_p: in units of 2^-32, 2^32 is off; top_k: 0 is off
  uint32_t least_key;             // of min_p, 0 is off
};

__device__ inline uint64_t rank_of(float l, int id) {
  const uint32_t bits = __float_as_uint(l + 0.0f);  // one zero
  const uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
__device__ inline int id_of(uint64_t rank) {
  return static_cast<int>(0xffffffffu - static_cast<uint32_t>(rank));
}

__device__ inline uint64_t p_of(uint32_t key) {
  return static_cast<uint64_t>(__uint_as_float(key - 1 + kOne));
}

// Every thread gets the block's.
__device__ Best reduce(Best b) {
  __shared__ Best warps[32];
  for (int s = 16; s >= 1; s /= 2) {
    const uint64_t other = __shfl_xor_sync(kAllLanes, b.rank, s);
    b.rank = other > b.rank ? other : b.rank;
    b.finite &= __shfl_xor_sync(kAllLanes, b.finite, s);
  }
  __syncthreads();
  if (lane_id() == 0) warps[warp_id()] = b;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) {
    if (warps[i].rank > b.rank) b.rank = warps[i].rank;
    b.finite &= warps[i].finite;
  }
  return b;
}

__device__ Best best_of_all(const SampleParams& a) {
  Best b{0, 1};
  for (int i = static_cast<int>(threadIdx.x); i < a.blocks; i += static_cast<int>(blockDim.x)) {
    const Best other = a.best[i];
    b.rank = other.rank > b.rank ? other.rank : b.rank;
    b.finite &= other.finite;
  }
  return reduce(b);
}

// Checks, penalties and the largest of a block's logits; clears the counts.
__global__ void __launch_bounds__(kThreads) sample_best(SampleParams a) {
  begin_early();
  const int tid = static_cast<int>(threadIdx.x), begin = static_cast<int>(blockIdx.x) * kPerBlock;
  const int end = a.V - begin < kPerBlock ? a.V : begin + kPerBlock;
  for (int i = static_cast<int>(blockIdx.x) * kThreads + tid; i < kBins;
       i += static_cast<int>(gridDim.x) * kThreads)
    a.count[i] = 0, a.total[i] = 0;
  Best b{0, 1};
  for (int i = begin + tid; i < end; i += kThreads) {
    if ((__float_as_uint(a.logits[i]) & 0x7f800000u) == 0x7f800000u) b.finite = 0;
  }
  __syncthreads();
  int low = 0;
  for (int high = a.penalized_count; low < high;) {
    const int middle = low + (high - low) / 2;
    if (a.penalized[middle] < begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (int i = low + tid; i < a.penalized_count && a.penalized[i] < end; i += kThreads) {
    float& l = a.logits[a.penalized[i]];
    l = l > 0.0f ? __fdiv_rn(l, a.repeat) : l * a.repeat;
    l = l - a.presence;
  }
  __syncthreads();
  for (int i = begin + tid; i < end; i += kThreads) {
    const uint64_t rank = rank_of(a.logits[i], i);
    b.rank = rank > b.rank ? rank : b.rank;
  }
  b = reduce(b);
  if (tid == 0) a.best[blockIdx.x] = b;
}

// Keys of a block's candidates, and their counts and sums by the upper bits.
__global__ void __launch_bounds__(kThreads) sample_keys(SampleParams a) {
  __shared__ unsigned count[kBins];
  __shared__ unsigned long long total[kBins];
  begin_early();
  const int tid = static_cast<int>(threadIdx.x), begin = static_cast<int>(blockIdx.x) * kPerBlock;
  const int end = a.V - begin < kPerBlock ? a.V : begin + kPerBlock;
  for (int i = tid; i < kBins; i += kThreads) count[i] = 0, total[i] = 0;
  const Best best = best_of_all(a);  // synchronises
  const float max = __fdiv_rn(a.logits[id_of(best.rank)], a.temperature);
  for (int i = begin + tid; i < end; i += kThreads) {
    const float e = exp32(__fdiv_rn(a.logits[i], a.temperature) - max) * 0x1p40f;
    const float p = e >= 0.0f ? rintf(e) : 0.0f;
    const uint32_t key = best.finite && p > 0.0f ? __float_as_uint(p) - kOne + 1 : 0;
    a.keys[i] = key;
    if (key == 0) continue;
    atomicAdd(&count[key >> 2 * kLowBits], 1u);
    atomicAdd(&total[key >> 2 * kLowBits], static_cast<unsigned long long>(p_of(key)));
  }
  __syncthreads();
  for (int i = tid; i < kBins; i += kThreads) {
    if (count[i] == 0) continue;
    atomicAdd(&a.count[i], count[i]);
    atomicAdd(&a.total[i], total[i]);
  }
}

// Exclusive sums over the threads of a block of kPickThreads.
__device__ Sum before_me(Sum own) {
  __shared__ Sum warps[kPickThreads / 32];
  Sum s = own;
  for (int d = 1; d < 32; d *= 2) {
    const Sum other{__shfl_up_sync(kAllLanes, s.count, static_cast<unsigned>(d)),
                    __shfl_up_sync(kAllLanes, s.total, static_cast<unsigned>(d))};
    if (lane_id() >= d) s = s + other;
  }
  __syncthreads();
  if (lane_id() == 31) warps[warp_id()] = s;
  __syncthreads();
  Sum all{s.count - own.count, s.total - own.total};
  for (int w = 0; w < warp_id(); ++w) all = all + warps[w];
  return all;
}

// Every key to one thread of a block of kPickThreads; keys begin at an address of 16 bytes.
template <class Take>
__device__ void each_key(const SampleParams& a, Take take) {
  const auto* four = reinterpret_cast<const uint4*>(a.keys);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < a.V / 4; i += kPickThreads) {
    const uint4 k = four[i];
    take(k.x), take(k.y), take(k.z), take(k.w);
  }
  if (const int i = a.V / 4 * 4 + static_cast<int>(threadIdx.x); i < a.V) take(a.keys[i]);
}

// Where in the order a target is reached.
struct Place {
  Sum before;     // all of larger parts
  uint32_t part;  // the part of the key that reaches it
};

// The first of `bins` parts, largest first, with which `start` reaches the target.
template <class Count, class Total>
__device__ Place first_part(const Count* count, const Total* total, int bins, Sum start, uint64_t target,
                            bool by_total) {
  __shared__ Place found;
  constexpr int kEach = (kBins + kPickThreads - 1) / kPickThreads;
  const int first = static_cast<int>(threadIdx.x) * kEach;
  Sum own{0, 0}, each[kEach];
  for (int i = 0; i < kEach; ++i) {
    const int bin = bins - 1 - first - i;
    each[i] = bin >= 0 ? Sum{count[bin], total[bin]} : Sum{0, 0};
    own = own + each[i];
  }
  Sum s = start + before_me(own);
  for (int i = 0; i < kEach; ++i) {
    const Sum next = s + each[i];
    if ((by_total ? s.total : s.count) < target && (by_total ? next.total : next.count) >= target)
      found = {s, static_cast<uint32_t>(bins - 1 - first - i)};
    s = next;
  }
  __syncthreads();
  const Place p = found;
  __syncthreads();
  return p;
}

// The candidate with which the number (or the sum) of those before and itself reaches the target, which is
// 1 or more and is reached: its key, the number of equal keys up to it, and the sums of all up to it.
struct Reached {
  Sum upto;
  uint32_t key;
  uint64_t nth;
};
__device__ Reached reach(const SampleParams& a, uint64_t target, bool by_total) {
  __shared__ unsigned count[kLowBins];
  __shared__ unsigned long long total[kLowBins];
  Place p = first_part(a.count, a.total, kBins, {0, 0}, target, by_total);
  uint32_t key = p.part;
  for (int level = 1; level >= 0; --level) {
    for (int i = static_cast<int>(threadIdx.x); i < kLowBins; i += kPickThreads) count[i] = 0, total[i] = 0;
    __syncthreads();
    each_key(a, [&](uint32_t k) {
      if (k == 0 || k >> (level + 1) * kLowBits != key) return;
      atomicAdd(&count[k >> level * kLowBits & (kLowBins - 1)], 1u);
      atomicAdd(&total[k >> level * kLowBits & (kLowBins - 1)], static_cast<unsigned long long>(p_of(k)));
    });
    __syncthreads();
    p = first_part(count, total, kLowBins, p.before, target, by_total);
    key = key << kLowBits | p.part;
  }
  const uint64_t each = p_of(key), missing = target - (by_total ? p.before.total : p.before.count);
  const uint64_t nth = by_total ? (missing + each - 1) / each : missing;
  return {{p.before.count + nth, p.before.total + nth * each}, key, nth};
}

// The id of the nth candidate with this key, counted from 1.
__device__ int find(const SampleParams& a, uint32_t key, uint64_t nth) {
  __shared__ int id;
  const int each = (a.V + kPickThreads - 1) / kPickThreads, begin = static_cast<int>(threadIdx.x) * each;
  const int end = begin + each < a.V ? begin + each : a.V;
  uint64_t own = 0;
  for (int i = begin; i < end; ++i) own += a.keys[i] == key;
  uint64_t seen = before_me({own, 0}).count;
  if (seen < nth && seen + own >= nth) {
    for (int i = begin; i < end; ++i) {
      if (a.keys[i] == key && ++seen == nth) id = i;
    }
  }
  __syncthreads();
  return id;
}

// The sum of every thread's.
__device__ Sum sum_of_block(Sum own) {
  __shared__ unsigned long long count, total;
  __syncthreads();
  if (threadIdx.x == 0) count = 0, total = 0;
  __syncthreads();
  if (own.count != 0) {
    atomicAdd(&count, static_cast<unsigned long long>(own.count));
    atomicAdd(&total, static_cast<unsigned long long>(own.total));
  }
  __syncthreads();
  return {count, total};
}

// Of all candidates, and of those whose key is `least` or more.
__device__ Sum all_candidates(const SampleParams& a) {
  Sum own{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kPickThreads)
    own = own + Sum{a.count[i], a.total[i]};
  return sum_of_block(own);
}
__device__ Sum at_least(const SampleParams& a, uint32_t least) {
  Sum own{0, 0};
  each_key(a, [&](uint32_t k) {
    if (k >= least) own = own + Sum{1, p_of(k)};
  });
  return sum_of_block(own);
}

__global__ void __launch_bounds__(kPickThreads) sample_pick(SampleParams a) {
  begin_early();
  const Best best = best_of_all(a);
  int token = best.finite ? id_of(best.rank) : -1;
  if (a.keys != nullptr && best.finite) {
    Sum left = all_candidates(a);
    if (left.count > 0) {
      if (a.top_k > 0 && a.top_k < left.count) left = reach(a, a.top_k, false).upto;
      if (a.top_p < uint64_t{1} << 32) {
        const uint64_t want = __umul64hi(left.total, a.top_p) << 32 | left.total * a.top_p >> 32;
        left = reach(a, want > 1 ? want : 1, true).upto;
      }
      if (a.least_key != 0) {
        Sum kept = at_least(a, a.least_key);
        if (kept.count == 0) kept = reach(a, 1, false).upto;
        if (kept.count < left.count) left = kept;
      }
      const Reached drawn = reach(a, __umul64hi(a.random, left.total) + 1, true);
      token = find(a, drawn.key, drawn.nth);
    }
  }
  if (threadIdx.x == 0) *a.token = token;
}

}  // namespace

void run(Queue& queue, const ops::SampleArgs& a) {
  const ops::SampleOptions& o = a.options;
  const unsigned blocks = blocks_for(a.V, kPerBlock);
  const bool draws = o.temperature != 0.0f;
  const size_t bests = blocks * sizeof(Best), totals = kBins * sizeof(uint64_t),
               counts = kBins * sizeof(unsigned);
  static_assert(sizeof(Best) % 16 == 0 && kBins % 4 == 0);  // keys begin at 16 bytes
  const size_t keys = draws ? static_cast<size_t>(a.V) * sizeof(uint32_t) : 0;
  auto* room = static_cast<std::byte*>(queue.scratch(bests + totals + counts + keys));
  if (room == nullptr) return;
  SampleParams p{};
  p.logits = a.logits, p.penalized = a.penalized, p.token = a.token;
  p.best = reinterpret_cast<Best*>(room);
  p.total = reinterpret_cast<unsigned long long*>(room + bests);
  p.count = reinterpret_cast<unsigned*>(room + bests + totals);
  p.keys = draws ? reinterpret_cast<uint32_t*>(room + bests + totals + counts) : nullptr;
  p.V = static_cast<int>(a.V), p.penalized_count = static_cast<int>(a.count),
  p.blocks = static_cast<int>(blocks);
  p.repeat = o.repeat_penalty, p.presence = o.presence_penalty, p.temperature = o.temperature;
  p.random = a.random, p.top_k = static_cast<uint64_t>(o.top_k);
  p.top_p = static_cast<uint64_t>(std::nearbyint(o.top_p * 0x1p32f));
  if (const float least = std::nearbyint(o.min_p * 0x1p40f); least > 0.0f)
    p.least_key = std::bit_cast<uint32_t>(least) - kOne + 1;
  queue.launch_early(sample_best, blocks, kThreads, 0, p);
  if (draws) queue.launch_early(sample_keys, blocks, kThreads, 0, p);
  queue.launch_early(sample_pick, 1, kPickThreads, 0, p);
}

}  // namespace argon::cuda
