// Top-k routing and the grouping of slots by expert. A warp ranks a token's logits. Grouping is a counting
// sort by one block: each warp counts the experts of its part of the slots, sums over the parts before it and
// the experts before give where its slots go, and it places them in order, so that the order is the
// contract's. Other sizes: a warp per expert scans all ids.
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

__global__ void moe_group(ops::MoeGroupArgs a) {
  const int e = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32), lane = lane_id();
  if (e > a.E) return;
  const int slots = static_cast<int>(a.T * a.K);
  int below = 0;
  for (int i = lane; i < slots; i += 32) below += a.ids[i] < e;
  below = __reduce_add_sync(kAllLanes, below);
  if (lane == 0) a.expert_begin[e] = below;
  if (e == a.E) return;
  for (int first = 0; first < slots; first += 32) {
    const int i = first + lane;
    const bool mine = i < slots && a.ids[i] == e;
    const unsigned all = __ballot_sync(kAllLanes, mine);
    if (mine) {
      const int s = below + __popc(all & ((1u << lane) - 1));
      a.slot[i] = s;
      a.slot_row[s] = i / static_cast<int>(a.K);
    }
    below += __popc(all);
  }
}

constexpr int kGroupWarps = 32, kGroupExperts = 512;

// E <= kGroupExperts; 32 bits hold T*K, 16 bits T.
__global__ void __launch_bounds__(kGroupWarps * 32) moe_group_sort(ops::MoeGroupArgs a) {
  // Slots of an expert in a warp's part, then those in the parts before.
  __shared__ uint16_t counts[kGroupWarps][kGroupExperts];
  __shared__ int begins[kGroupExperts], warp_sums[kGroupWarps];
  begin_early();
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id(), warp = warp_id(), E = static_cast<int>(a.E);
  const int slots = static_cast<int>(a.T * a.K), K = static_cast<int>(a.K);
  const int each = (slots + kGroupWarps * 32 - 1) / (kGroupWarps * 32) * 32;
  const int from = warp * each, stop = min(from + each, slots);
  for (int e = lane; e < kGroupExperts; e += 32) counts[warp][e] = 0;
  __syncwarp();
  // The first of a warp's lanes with the same expert speaks for all of them.
  const auto parts = [&](auto use) {
    constexpr int kAhead = 4;
    for (int first = from; first < stop; first += 32 * kAhead) {
      int id[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int at = first + i * 32 + lane;
        id[i] = at < stop ? a.ids[at] : -1;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const unsigned same = __match_any_sync(kAllLanes, id[i]);
        const int before = __popc(same & ((1u << lane) - 1));
        if (id[i] >= 0) use(first + i * 32 + lane, id[i], before);
        __syncwarp();
        if (id[i] >= 0 && before == 0) counts[warp][id[i]] += static_cast<uint16_t>(__popc(same));
        __syncwarp();
      }
    }
  };
  parts([](int, int, int) {});
  __syncthreads();
  int mine = 0;
  if (tid < kGroupExperts) {
#pragma unroll 8
    for (int w = 0; w < kGroupWarps; ++w) {
      const int count = counts[w][tid];
      counts[w][tid] = static_cast<uint16_t>(mine);
      mine += count;
    }
  }
  int below = mine;  // with those of lower lanes, then of lower warps
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    const int other = __shfl_up_sync(kAllLanes, below, s);
    if (lane >= s) below += other;
  }
  if (lane == 31) warp_sums[warp] = below;
  __syncthreads();
  below -= mine;
  for (int w = 0; w < warp; ++w) below += warp_sums[w];
  if (tid < kGroupExperts) begins[tid] = below;
  if (tid < E) a.expert_begin[tid] = below;
  if (tid == 0) a.expert_begin[E] = slots;
  __syncthreads();
  parts([&](int at, int id, int before) {
    const int s = begins[id] + counts[warp][id] + before;
    a.slot[at] = s;
    a.slot_row[s] = at / K;
  });
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
  if (a.E <= kGroupExperts && a.T < 65536 && a.T * a.K < int64_t{1} << 30) {
    queue.launch_early(moe_group_sort, 1, kGroupWarps * 32, 0, a);
    return;
  }
  queue.launch(moe_group, blocks_for(a.E + 1, 8), 256, 0, a);
}

}  // namespace argon::cuda
