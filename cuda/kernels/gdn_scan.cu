// The gated delta rule, token after token. Eight lanes share a value column, one for each of the contract's
// eight parts of the key dimension, and keep their part of the state in registers.
//
// gdn_scan_128 (heads of 128): a block takes 16 columns of kHeads value heads that read one key head (tiled
// order: heads k, k+hk, ...). A warp holds 4 columns of one or two of the heads, so a lane has 16 or 32 state
// values; two warps share a scheduler (2 + 1 heads, or 1 + 1), and while one waits for its shuffles the other
// one issues. At the model's 16 key and 48 value heads that is 128 blocks, one for each multiprocessor of a
// large GPU. Bound: 4*D*D operations per head and token (192 cycles a token on 128 processors).
// docs/lab/cuda-gdn.md counts what a token costs.
//   - k.S, q.S and decay*S of a token stand together: neighbours in the instruction stream share k, q or S,
//   so
//     the register ports, of which a fma with three new operands wants too many, are relieved.
//   - Four more warps copy tiles of tokens into shared memory and work out the outputs of the last tile from
//     the parts of q.S and the d that the scanning warps leave there: one barrier a tile.
//   - Lanes that read the same k lie side by side (part = lane / 4), which halves the load unit's work.
#include <cstddef>

#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "cuda/kernels/copy_async.cuh"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kPart = 16;        // keys of a lane
constexpr int kPartStride = 20;  // in shared memory: the 8 parts of a row fall on different banks
constexpr int kSet = 4;          // warps that scan the same heads, 4 columns each
constexpr int kColumns = 4 * kSet;
constexpr int kHelpers = 128;  // threads that copy and write
constexpr int kMostHeads = 3;
constexpr int kStages = 3;    // tiles of tokens: one is worked on, the next is there, one is on its way
constexpr int kKeptRow = 36;  // lanes of a warp, spaced so that the helpers' reads fall on different banks

// Warps of a block: a set for the first two of three heads, or for the first of two or one; a set for the
// last.
template <int kHeads>
struct Split {
  static constexpr int kWarps = kHeads > 1 ? 2 * kSet : kSet, kThreads = kWarps * 32 + kHelpers;
};

// One token's input.
struct Slot {
  float k[8 * kPartStride];
  float q[8 * kPartStride];
  float4 v[kColumns];  // of the heads
  float gates[8];      // decay and beta of each head; from 2 * kMostHeads on: k.q
};
constexpr int kSlot = sizeof(Slot);

// What a lane leaves of a token: of each head of its warp its part of q.S, then of each head d.
template <int kHeads>
struct Kept {
  float2 one[kHeads][kSet][kKeptRow];
};
template <>
struct Kept<3> {
  float4 two[kSet][kKeptRow];
  float2 one[1][kSet][kKeptRow];
};

template <int kHeads, int kTile>
struct Shared {
  Slot slots[kStages * kTile +
             1];  // the last one is the first one again, so that a tile's successor follows it
  Kept<kHeads> kept[2][kTile];
};

template <int kThreads>
__device__ inline void sync_all() {
  asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
}
__device__ inline void sync_helpers() { asm volatile("bar.sync 1, %0;" ::"n"(kHelpers) : "memory"); }

struct Place {
  int key_head, head, column;  // the block's first value head and first column
};

// Tokens first .. of the pass to slots[0] .., by the helpers; past the end the last token is taken again. The
// first one also goes to `again`, if there is one.
template <int kHeads, int kTile>
__device__ inline void load_tile(Slot* slots, Slot* again, const ops::GdnScanArgs& a, const Place& p,
                                 int first, int tid) {
  const int last = static_cast<int>(a.s.T) - 1, hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv);
#pragma unroll
  for (int j = 0; j < kTile * 32 / kHelpers; ++j) {
    const int t = j * (kHelpers / 32) + tid / 32, c = tid % 32, to = c / 4 * kPartStride + c % 4 * 4;
    const int64_t from = (int64_t{min(first + t, last)} * hk + p.key_head) * kD + c * 4;
    copy_async<16>(&slots[t].k[to], a.kn + from, true);
    copy_async<16>(&slots[t].q[to], a.qn + from, true);
    if (again != nullptr && t == 0) {
      copy_async<16>(&again->k[to], a.kn + from, true);
      copy_async<16>(&again->q[to], a.qn + from, true);
    }
  }
#pragma unroll
  for (int j = 0; j < kTile * kColumns / kHelpers; ++j) {
    const int t = j * (kHelpers / kColumns) + tid / kColumns, c = tid % kColumns;
    const float* from = a.vc + (int64_t{min(first + t, last)} * hv + p.head) * kD + p.column + c;
#pragma unroll
    for (int h = 0; h < kHeads; ++h, from += hk * kD) {
      copy_async<4>(reinterpret_cast<float*>(&slots[t].v[c]) + h, from, true);
      copy_async<4>(reinterpret_cast<float*>(&(again != nullptr ? again : slots)->v[c]) + h, from,
                    again != nullptr && t == 0);
    }
  }
  const int t = tid / 4, h = tid % 4;
  if (t < kTile && (h < kHeads || h == kMostHeads)) {
    const int64_t token = min(first + t, last);
    for (Slot* slot = slots + t; slot != nullptr; slot = slot != again && t == 0 ? again : nullptr) {
      if (h == kMostHeads) {
        copy_async<4>(&slot->gates[2 * h], a.kq + token * hk + p.key_head, true);
      } else {
        copy_async<8>(&slot->gates[2 * h], a.gb + (token * hv + p.head + h * hk) * 2, true);
      }
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Parts of q.S of each head and d, which a column's lane x of warp w left; d is the same in all of them.
template <int kHeads>
__device__ inline void read_kept(const Kept<kHeads>& k, int w, int x, float (&q)[kHeads][8],
                                 float (&d)[kHeads]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if constexpr (kHeads == 3) {
      const float4 y = k.two[w][4 * i + x];
      const float2 z = k.one[0][w][4 * i + x];
      q[0][i] = y.x, q[1][i] = y.y, q[2][i] = z.x;
      d[0] = y.z, d[1] = y.w, d[2] = z.y;
    } else {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float2 z = k.one[h][w][4 * i + x];
        q[h][i] = z.x, d[h] = z.y;
      }
    }
  }
}

// The outputs of a tile, by the helpers: a thread takes a token and a column.
template <int kHeads, int kTile>
__device__ inline void write_outputs(const Slot* slots, const Kept<kHeads>* kept, float* out, int count,
                                     int hv, int hk, int tid) {
#pragma unroll
  for (int j = 0; j < kTile * kColumns / kHelpers; ++j) {
    const int t = j * (kHelpers / kColumns) + tid / kColumns, c = tid % kColumns;
    float q[kHeads][8], d[kHeads];
    read_kept<kHeads>(kept[t], c / 4, c % 4, q, d);
    const float* gates = slots[t].gates;
    if (t >= count) continue;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float total = fold8(q[h]);
      out[int64_t{t} * hv * kD + h * hk * kD + c] =
          __fmaf_rn(gates[2 * kMostHeads], d[h], gates[2 * h] * total);
    }
  }
}

template <int kHeads, int kTile>
__device__ void help(Shared<kHeads, kTile>& s, const ops::GdnScanArgs& a, const Place& p, int tiles) {
  constexpr int kThreads = Split<kHeads>::kThreads;
  const int tid = static_cast<int>(threadIdx.x) - Split<kHeads>::kWarps * 32;
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv), T = static_cast<int>(a.s.T);
  Slot* const again = s.slots + kStages * kTile;
  for (int n = 0; n < kStages; ++n) {
    load_tile<kHeads, kTile>(s.slots + n * kTile, n == 0 ? again : nullptr, a, p, n * kTile, tid);
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  sync_all<kThreads>();  // tiles 0 and 1 are there
  float* out = a.o + int64_t{p.head} * kD + p.column;
  for (int n = 0, stage = 0; n < tiles; ++n) {
    Slot* slots = s.slots + stage * kTile;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    sync_all<kThreads>();  // tile n is worked through, tile n + 2 is there
    write_outputs<kHeads, kTile>(slots, s.kept[n % 2], out + int64_t{n} * kTile * hv * kD, T - n * kTile, hv,
                                 hk, tid);
    sync_helpers();
    load_tile<kHeads, kTile>(slots, stage == 0 ? again : nullptr, a, p, (n + kStages) * kTile, tid);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

__device__ inline void load_row(float (&x)[kPart], const uint8_t* from) {
#pragma unroll
  for (int i = 0; i < kPart; i += 4) {
    const float4 y = *reinterpret_cast<const float4*>(from + i * 4);
    x[i] = y.x, x[i + 1] = y.y, x[i + 2] = y.z, x[i + 3] = y.w;
  }
}

// What a scanning lane works on; H heads of the block, from `first` on.
template <int H>
struct Lane {
  float S[H][kPart], q[kPart], decay[H], beta[H], v[H];
  int row, own, first;  // bytes of its part in a row of k, its column, its first head
  int zero;             // 0, which the compiler does not know

  __device__ inline void load_q(const uint8_t* slot) { load_row(q, slot + offsetof(Slot, q) + row); }
  __device__ inline void load_gates(const uint8_t* slot) {
    const float* gates = reinterpret_cast<const float*>(slot + offsetof(Slot, gates)) + 2 * first;
    const float* values = reinterpret_cast<const float*>(slot + offsetof(Slot, v) + own * 16) + first;
    if constexpr (H == 2) {
      const float4 x = *reinterpret_cast<const float4*>(gates);
      const float2 y = *reinterpret_cast<const float2*>(values);
      decay[0] = x.x, beta[0] = x.y, decay[1] = x.z, beta[1] = x.w, v[0] = y.x, v[1] = y.y;
    } else {
      const float2 x = *reinterpret_cast<const float2*>(gates);
      decay[0] = x.x, beta[0] = x.y, v[0] = *values;
    }
  }
};

// One token, whose k is at hand; `slot` holds the token after it, whose k goes to `next`. The first shuffle's
// mask waits for q.S as well (after kTied of its steps): this makes the compiler give both sums the same rank
// and interleave them, which is what lets them share registers.
template <int H>
__device__ inline void scan_token(Lane<H>& l, const float (&k)[kPart], float (&next)[kPart],
                                  const uint8_t* slot, uint8_t* kept) {
  constexpr int kTied = H == 1 ? 14 : 16;
  float pk[H], pq[H], d[H];
  int tied = 0;
#pragma unroll
  for (int h = 0; h < H; ++h) pk[h] = pq[h] = 0.0f;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < H; ++h) {
      pk[h] = __fmaf_rn(k[i], l.S[h][i], pk[h]);
      pq[h] = __fmaf_rn(l.q[i], l.S[h][i], pq[h]);
      if (i == kTied - 1) tied |= __float_as_int(pq[h]);
      l.S[h][i] = l.decay[h] * l.S[h][i];
    }
  }
  l.load_q(slot);
  load_row(next, slot + l.row);
#pragma unroll
  for (int level = 0; level < 3; ++level) {
    const int mask = level == 0 ? (tied & l.zero) | 4 : 4 << level;
#pragma unroll
    for (int h = 0; h < H; ++h) pk[h] = pk[h] + __shfl_xor_sync(kAllLanes, pk[h], mask);
  }
#pragma unroll
  for (int h = 0; h < H; ++h) {
    const float m = l.decay[h] * pk[h];
    d[h] = l.beta[h] * (l.v[h] - m);
  }
  if constexpr (H == 2) {
    *reinterpret_cast<float4*>(kept) = {pq[0], pq[1], d[0], d[1]};
  } else {
    *reinterpret_cast<float2*>(kept) = {pq[0], d[0]};
  }
  l.load_gates(slot);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < H; ++h) l.S[h][i] = __fmaf_rn(k[i], d[h], l.S[h][i]);
  }
}

// A warp's part of the scan. `kept` is the lane's place in the first token of either half of Shared::kept.
template <int H, int kTile, int kThreads, int kToken>
__device__ inline void scan_tokens(const Slot* first_slot, uint8_t* first_kept, const ops::GdnScanArgs& a,
                                   const Place& p, int first, int tiles) {
  const int lane = lane_id(), part = lane / 4, T = static_cast<int>(a.s.T);
  Lane<H> l;
  l.row = part * kPartStride * 4, l.own = warp_id() % kSet * 4 + lane % 4, l.first = first, l.zero = T >> 31;
  float* state = a.state + (int64_t{p.head + first * a.s.hk} * kD + part * kPart) * kD + p.column + l.own;
#pragma unroll
  for (int h = 0; h < H; ++h) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) l.S[h][i] = state[(int64_t{h} * a.s.hk * kD + i) * kD];
  }
  const uint8_t* const slots = reinterpret_cast<const uint8_t*>(first_slot);
  const uint8_t* const last_stage = slots + (kStages - 1) * kTile * kSlot;
  float k[kPart], next[kPart];
  sync_all<kThreads>();
  load_row(k, slots + l.row);
  l.load_q(slots);
  l.load_gates(slots);
  const uint8_t* stage = slots;
  for (int n = 0; n < tiles; ++n) {
    const int count = min(T - n * kTile, kTile);
    const uint8_t* slot = stage;
    uint8_t* kept = n % 2 == 0 ? first_kept : first_kept + kTile * kToken;
    for (int left = count / 2; left > 0; --left, slot += 2 * kSlot, kept += 2 * kToken) {
      scan_token(l, k, next, slot + kSlot, kept);
      scan_token(l, next, k, slot + 2 * kSlot, kept + kToken);
    }
    // Only the pass's last tile can end here.
    if (count % 2 != 0) scan_token(l, k, next, slot + kSlot, kept);
    stage = stage == last_stage ? slots : stage + kTile * kSlot;
    sync_all<kThreads>();
  }
#pragma unroll
  for (int h = 0; h < H; ++h) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) state[(int64_t{h} * a.s.hk * kD + i) * kD] = l.S[h][i];
  }
}

// blockIdx.x: columns of a head; blockIdx.y: first value head; its key head is head % hk.
template <int kHeads, int kTile>
__global__ void __launch_bounds__(Split<kHeads>::kThreads, 1) gdn_scan_128(ops::GdnScanArgs a) {
  using S = Split<kHeads>;
  extern __shared__ __align__(16) uint8_t memory[];
  auto& s = *reinterpret_cast<Shared<kHeads, kTile>*>(memory);
  const int hk = static_cast<int>(a.s.hk), head = static_cast<int>(blockIdx.y);
  const Place p{head % hk, head, static_cast<int>(blockIdx.x) * kColumns};
  const int tiles = (static_cast<int>(a.s.T) + kTile - 1) / kTile, lane = lane_id();
  const int warp = __shfl_sync(kAllLanes, warp_id(), 0), set = warp / kSet, w = warp % kSet;
  constexpr int kToken = sizeof(Kept<kHeads>);
  const auto scan = [&]<int H>(auto& row, int first) {
    scan_tokens<H, kTile, S::kThreads, kToken>(s.slots, reinterpret_cast<uint8_t*>(&row[w][lane]), a, p,
                                               first, tiles);
  };
  if (warp >= S::kWarps) {
    help<kHeads, kTile>(s, a, p, tiles);
  } else if constexpr (kHeads == 3) {
    if (set == 0) {
      scan.template operator()<2>(s.kept[0][0].two, 0);
    } else {
      scan.template operator()<1>(s.kept[0][0].one[0], 2);
    }
  } else {
    scan.template operator()<1>(s.kept[0][0].one[set], set);
  }
}

// Any D: eight lanes per column, the state stays in memory.
__global__ void gdn_scan_any(ops::GdnScanArgs a) {
  const ops::GdnShape& s = a.s;
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  const bool inside = column < s.hv * s.D;
  const int64_t j = inside ? column / s.D : 0, c = inside ? column % s.D : 0, key_head = j % s.hk;
  const int64_t keys = s.D / 8, i0 = threadIdx.x % 8 * keys;
  float* S = a.state + (j * s.D + i0) * s.D + c;
  for (int64_t t = 0; t < s.T; ++t) {
    const float* k = a.kn + (t * s.hk + key_head) * s.D + i0;
    const float* q = a.qn + (t * s.hk + key_head) * s.D + i0;
    const float decay = a.gb[(t * s.hv + j) * 2], beta = a.gb[(t * s.hv + j) * 2 + 1];
    float pk = 0.0f, pq = 0.0f;
    if (inside) {
      for (int64_t i = 0; i < keys; ++i) {
        pk = __fmaf_rn(k[i], S[i * s.D], pk);
        pq = __fmaf_rn(q[i], S[i * s.D], pq);
      }
    }
#pragma unroll
    for (int x = 1; x <= 4; x *= 2) {
      pk = pk + __shfl_xor_sync(kAllLanes, pk, x);
      pq = pq + __shfl_xor_sync(kAllLanes, pq, x);
    }
    if (!inside) continue;
    const float m = decay * pk;
    const float d = beta * (a.vc[(t * s.hv + j) * s.D + c] - m);
    for (int64_t i = 0; i < keys; ++i) S[i * s.D] = __fmaf_rn(k[i], d, decay * S[i * s.D]);
    if (i0 == 0) a.o[(t * s.hv + j) * s.D + c] = __fmaf_rn(a.kq[t * s.hk + key_head], d, decay * pq);
  }
}

template <int kHeads, int kTile>
void launch_tiles(Queue& queue, const ops::GdnScanArgs& a) {
  static const cudaError_t raised =
      cudaFuncSetAttribute(gdn_scan_128<kHeads, kTile>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(Shared<kHeads, kTile>)));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(gdn_scan_128<kHeads, kTile>, dim3(kD / kColumns, static_cast<unsigned>(a.s.hv / kHeads)),
               Split<kHeads>::kThreads, sizeof(Shared<kHeads, kTile>), a);
}

// Short tiles for GPUs whose blocks get less than the 187 KB of long ones.
template <int kHeads>
void launch_128(Queue& queue, const ops::GdnScanArgs& a) {
  static const bool large = [] {
    int device = 0, most = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           most >= static_cast<int>(sizeof(Shared<kHeads, 16>));
  }();
  large ? launch_tiles<kHeads, 16>(queue, a) : launch_tiles<kHeads, 8>(queue, a);
}

}  // namespace

void scan_by(Queue& queue, const ops::GdnScanArgs& a, int64_t heads) {
  if (a.s.T == 0) return;
  switch (a.s.D == kD ? heads : 0) {
    case 3:
      return launch_128<3>(queue, a);
    case 2:
      return launch_128<2>(queue, a);
    case 1:
      return launch_128<1>(queue, a);
    default:
      queue.launch(gdn_scan_any, blocks_for(a.s.hv * a.s.D * 8, 128), 128, 0, a);
  }
}

void run(Queue& queue, const ops::GdnScanArgs& a) {
  const int64_t group = a.s.hv / a.s.hk;
  scan_by(queue, a, group == 2 || group == 3 ? group : 1);
}

}  // namespace argon::cuda
