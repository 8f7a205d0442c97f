// Top-k routing and the grouping of slots by expert. A warp ranks a token's logits; a warp per expert counts
// and places its slots, scanning all ids in order, so that the order is the contract's without a sort.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

// Shared: E logits, then E/32 words that say which are taken.
__global__ void moe_route(ops::MoeRouteArgs a) {
  extern __shared__ float logits[];
  uint32_t* taken = reinterpret_cast<uint32_t*>(logits + a.E);
  const int lane = lane_id(), E = static_cast<int>(a.E);
  const int64_t t = blockIdx.x;
  for (int e = lane; e < E; e += 32) logits[e] = a.logits[t * a.E + e];
  for (int i = lane; i < (E + 31) / 32; i += 32) taken[i] = 0;
  __syncwarp();
  float max = 0.0f, sum = 0.0f;
  for (int k = 0; k < a.K; ++k) {
    float best = __uint_as_float(0xff800000u);
    int at = E;
    for (int e = lane; e < E; e += 32) {
      const float l = logits[e];
      if (taken[e / 32] >> lane & 1) continue;
      if (l > best || (l == best && e < at) || at == E) best = l, at = e;
    }
#pragma unroll
    for (int s = 16; s >= 1; s /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, s);
      const int other_at = __shfl_xor_sync(kAllLanes, at, s);
      if (other_at < E && (at == E || other > best || (other == best && other_at < at))) {
        best = other, at = other_at;
      }
    }
    at = __shfl_sync(kAllLanes, at, 0);  // one answer also among NaNs
    best = __shfl_sync(kAllLanes, best, 0);
    if (k == 0) max = best;
    const float e = exp32(best - max);
    sum = k == 0 ? e : sum + e;
    if (lane == 0) {
      taken[at / 32] |= 1u << (at % 32);
      a.ids[t * a.K + k] = at;
      a.w[t * a.K + k] = e;
    }
    __syncwarp();
  }
  for (int k = lane; k < a.K; k += 32) a.w[t * a.K + k] = __fdiv_rn(a.w[t * a.K + k], sum);
  if (lane == 0) a.sg[t] = sigmoid32(a.shared[t]);
}

constexpr int kGroupWarps = 4;

// A warp per expert, and one for the end. A lane takes four neighbouring ids at a time, four such loads
// ahead.
__global__ void __launch_bounds__(32 * kGroupWarps) moe_group(ops::MoeGroupArgs a) {
  begin_early();
  const int e = static_cast<int>(blockIdx.x) * kGroupWarps + warp_id(), lane = lane_id();
  if (e > a.E) return;
  const int slots = static_cast<int>(a.T * a.K), K = static_cast<int>(a.K);
  const bool whole = reinterpret_cast<uintptr_t>(a.ids) % 16 == 0;
  const auto each = [&](auto use) {
    constexpr int kAhead = 4;
    for (int first = 0; first < slots; first += 128 * kAhead) {
      int4 ids[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int at = first + i * 128 + lane * 4;
        if (whole && at + 3 < slots) {
          ids[i] = *reinterpret_cast<const int4*>(a.ids + at);
        } else {
          ids[i].x = at < slots ? a.ids[at] : 0x7fffffff;
          ids[i].y = at + 1 < slots ? a.ids[at + 1] : 0x7fffffff;
          ids[i].z = at + 2 < slots ? a.ids[at + 2] : 0x7fffffff;
          ids[i].w = at + 3 < slots ? a.ids[at + 3] : 0x7fffffff;
        }
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) use(first + i * 128 + lane * 4, ids[i]);
    }
  };
  int below = 0;
  each([&](int, const int4& id) { below += (id.x < e) + (id.y < e) + (id.z < e) + (id.w < e); });
  below = __reduce_add_sync(kAllLanes, below);
  if (lane == 0) a.expert_begin[e] = below;
  if (e == a.E) return;
  const unsigned lower = (1u << lane) - 1;
  each([&](int at, const int4& id) {
    const bool mine[4] = {id.x == e, id.y == e, id.z == e, id.w == e};
    if (!__any_sync(kAllLanes, mine[0] || mine[1] || mine[2] || mine[3])) return;
    int s = below;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned all = __ballot_sync(kAllLanes, mine[j]);
      s += __popc(all & lower);
      below += __popc(all);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (!mine[j]) continue;
      a.slot[at + j] = s;
      a.slot_row[s] = (at + j) / K;
      ++s;
    }
  });
}

// The same with all ids kept in shared memory, 16 bits each, beside how many slots each expert has.
constexpr int kKeptSlots = 90000, kKeptExperts = 4096;
__global__ void __launch_bounds__(32 * kGroupWarps) moe_group_kept(ops::MoeGroupArgs a) {
  extern __shared__ __align__(16) uint16_t ids[];
  begin_early();
  const int e = static_cast<int>(blockIdx.x) * kGroupWarps + warp_id(), lane = lane_id();
  const int tid = static_cast<int>(threadIdx.x), E = static_cast<int>(a.E), K = static_cast<int>(a.K);
  const int slots = static_cast<int>(a.T * a.K), padded = (slots + 255) / 256 * 256;
  auto* counts = reinterpret_cast<int*>(ids + padded);
  for (int i = tid; i < E; i += 32 * kGroupWarps) counts[i] = 0;
  __syncthreads();
  constexpr int kAhead = 8;
  for (int first = 0; first < padded; first += 32 * kGroupWarps * kAhead) {
    int id[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = first + i * 32 * kGroupWarps + tid;
      id[i] = at < slots ? a.ids[at] : -1;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = first + i * 32 * kGroupWarps + tid;
      if (id[i] >= 0) atomicAdd(&counts[id[i]], 1);
      if (at < padded) ids[at] = static_cast<uint16_t>(id[i]);
    }
  }
  __syncthreads();
  if (e > E) return;
  int below = 0;
  for (int i = lane; i < e; i += 32) below += counts[i];
  below = __reduce_add_sync(kAllLanes, below);
  if (lane == 0) a.expert_begin[e] = below;
  if (e == E) return;
  const int stop = below + counts[e];
  const uint32_t both = static_cast<uint32_t>(e) << 16 | static_cast<uint32_t>(e);
  const unsigned lower = (1u << lane) - 1;
  // A lane looks at eight neighbouring ids; nothing of them: no half of a word that is zero.
  for (int first = 0; below < stop; first += 256) {
    const uint4 four = *reinterpret_cast<const uint4*>(ids + first + lane * 8);
    const uint32_t word[4] = {four.x ^ both, four.y ^ both, four.z ^ both, four.w ^ both};
    uint32_t zero = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) zero |= (word[j] - 0x00010001u) & ~word[j] & 0x80008000u;
    if (!__any_sync(kAllLanes, zero != 0)) continue;
    int mine = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) mine += ((word[j] & 0xffffu) == 0) + (word[j] >> 16 == 0);
    int s = below;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const unsigned all = __ballot_sync(kAllLanes, mine >> b & 1);
      s += __popc(all & lower) << b;
      below += __popc(all) << b;
    }
    if (mine == 0) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if ((word[j / 2] >> (j % 2 * 16) & 0xffffu) != 0) continue;
      const int at = first + lane * 8 + j;
      a.slot[at] = s;
      a.slot_row[s] = at / K;
      ++s;
    }
  }
}

struct Routing {
  ops::MoeRouteArgs route;
  ops::MoeGroupArgs group;
};

// A warp ranks token t's logits, which its lanes hold as ordered keys (E <= 32*kOwn, 0: none): lane k < K
// gets the k-th expert and its weight.
struct Ranked {
  int id;
  float w;
};
template <int kOwn>
__device__ inline Ranked rank_logits(const float* logits, int E, int K) {
  const int lane = lane_id();
  uint32_t keys[kOwn], best = 0, taken = 0;
  int best_i = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) keys[i] = i * 32 + lane < E ? order_key(logits[i * 32 + lane]) : 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (keys[i] > best) best = keys[i], best_i = i;
  }
  uint32_t mine = 0;  // lane k: the k-th largest key
  int id = 0;
  for (int k = 0; k < K; ++k) {
    const uint32_t top = __reduce_max_sync(kAllLanes, best);
    const int at = __reduce_min_sync(kAllLanes, best == top ? best_i * 32 + lane : 0x7fffffff);
    if (lane == k) mine = top, id = at;
    if (at % 32 == lane) {
      best = 0;
      taken |= 1u << at / 32;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (keys[i] > best && !(taken >> i & 1)) best = keys[i], best_i = i;
      }
    }
  }
  const float logit = __uint_as_float(mine & 0x80000000u ? mine ^ 0x80000000u : ~mine);
  const float e = exp32(logit - __shfl_sync(kAllLanes, logit, 0));
  float sum = __shfl_sync(kAllLanes, e, 0);
  for (int k = 1; k < K; ++k) sum = sum + __shfl_sync(kAllLanes, e, k);
  return {id, __fdiv_rn(e, sum)};
}

constexpr int kRouteWarps = 4, kOwnKeys = 16;

// A warp per token; E <= 32*kOwnKeys, K <= 32.
__global__ void __launch_bounds__(32 * kRouteWarps) route_rows(ops::MoeRouteArgs a) {
  begin_early();
  const int64_t t = int64_t{blockIdx.x} * kRouteWarps + warp_id();
  if (t >= a.T) return;
  const int lane = lane_id(), K = static_cast<int>(a.K);
  const float shared = a.shared[t];
  const Ranked own = rank_logits<kOwnKeys>(a.logits + t * a.E, static_cast<int>(a.E), K);
  if (lane < K) {
    a.ids[t * K + lane] = own.id;
    a.w[t * K + lane] = own.w;
  }
  if (lane == 0) a.sg[t] = sigmoid32(shared);
}

// One token: warp 0 ranks the logits, then all threads write where each expert's slots begin.
template <int kOwn>
__global__ void __launch_bounds__(256) route_one(Routing p) {
  __shared__ int chosen[32];
  begin_early();
  const ops::MoeRouteArgs& a = p.route;
  const int lane = lane_id(), E = static_cast<int>(a.E), K = static_cast<int>(a.K);
  if (warp_id() == 0) {
    const float shared = a.shared[0];
    const Ranked own = rank_logits<kOwn>(a.logits, E, K);
    int slot = 0;
    for (int k = 0; k < K; ++k) slot += __shfl_sync(kAllLanes, own.id, k) < own.id;
    if (lane < K) {
      a.ids[lane] = own.id;
      a.w[lane] = own.w;
      p.group.slot[lane] = slot;
      p.group.slot_row[lane] = 0;
      chosen[lane] = own.id;
    }
    if (lane == 0) a.sg[0] = sigmoid32(shared);
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e <= E; e += 256) {
    int below = 0;
    for (int k = 0; k < K; ++k) below += chosen[k] < e;
    p.group.expert_begin[e] = below;
  }
}

}  // namespace

bool routing(Queue& queue, const ops::MoeRouteArgs& route, const ops::MoeGroupArgs& group) {
  if (route.T != 1 || group.T != 1 || route.E > 512 || route.K > 32 || route.K > route.E ||
      route.K != group.K || route.E != group.E || route.ids != group.ids) {
    return false;
  }
  queue.launch_early(route_one<kOwnKeys>, 1, 256, 0, Routing{route, group});
  return true;
}

void run(Queue& queue, const ops::MoeRouteArgs& a) {
  if (a.T == 0) return;
  if (a.E <= 32 * kOwnKeys && a.K <= 32 && a.K <= a.E) {
    queue.launch_early(route_rows, blocks_for(a.T, kRouteWarps), 32 * kRouteWarps, 0, a);
    return;
  }
  const size_t shared = static_cast<size_t>(a.E) * 4 + static_cast<size_t>((a.E + 31) / 32) * 4;
  queue.launch(moe_route, static_cast<unsigned>(a.T), 32, shared, a);
}

void run(Queue& queue, const ops::MoeGroupArgs& a) {
  const int64_t slots = a.T * a.K;
  if (slots <= kKeptSlots && a.E <= kKeptExperts) {
    static const cudaError_t raised =
        cudaFuncSetAttribute(moe_group_kept, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (kKeptSlots + 256) * 2 + kKeptExperts * 4);
    const size_t room = static_cast<size_t>((slots + 255) / 256 * 256 * 2 + a.E * 4);
    if (raised == cudaSuccess || room <= size_t{48} << 10) {
      queue.launch_early(moe_group_kept, blocks_for(a.E + 1, kGroupWarps), 32 * kGroupWarps, room, a);
      return;
    }
    cudaGetLastError();
  }
  queue.launch_early(moe_group, blocks_for(a.E + 1, kGroupWarps), 32 * kGroupWarps, 0, a);
}

}  // namespace argon::cuda
