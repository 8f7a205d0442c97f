// The gated delta rule, token after token. Eight lanes share a value column, one for each of the contract's
// eight parts of the key dimension, and keep their part of the state in registers.
//
// gdn_scan_128 (heads of 128): a warp holds 4 columns of kHeads value heads that read one key head (tiled
// order: heads k, k+hk, ...), so a lane has kHeads*16 state values and reads k and q once for all of them. At
// the model's 16 key and 48 value heads that is 512 warps, one for each scheduler of a large GPU, so nothing
// but the warp's own independent work hides a latency. Two warps a scheduler are slower: a fma that reads
// three new registers takes two cycles, and only a warp that issues alone finds the last operands in the
// reuse cache. Bound: 4*D*D operations per head and token (192 cycles a token on 128 processors).
// docs/lab/cuda-gdn.md counts what a token costs.
//   - A token's chain is k.S -> 3 shuffles -> d -> S. The update of token t and k.S of token t+1 go together;
//     q.S and decay*S, which read the same S, fill the waits for the shuffles.
//   - Four more warps copy tiles of tokens into shared memory and work out the outputs of the last tile from
//     the parts of q.S and the d that the scanning warps leave there: one barrier a tile. What they issue,
//     the scanning warps cannot, so addresses are only added to.
//   - Lanes that read the same k lie side by side (part = lane / 4), which halves the load unit's work.
#include <cstddef>

#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "cuda/kernels/copy_async.cuh"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kPart = 16;             // keys of a lane
constexpr int kPartStride = 20;       // in shared memory: the 8 parts of a row fall on different banks
constexpr int kWarps = 4;             // that scan
constexpr int kColumns = 4 * kWarps;  // of a block
constexpr int kHelpers = 128;         // threads that copy and write
constexpr int kMostHeads = 3;
constexpr int kStages = 3;    // tiles of tokens: one is worked on, the next is there, one is on its way
constexpr int kKeptRow = 36;  // lanes of a warp, spaced so that the helpers' reads fall on different banks

// One token's input.
struct Slot {
  float k[8 * kPartStride];
  float q[8 * kPartStride];
  float4 v[kColumns];  // of the heads
  float gates[8];      // decay and beta of each head; from 2 * kMostHeads on: k.q
};
constexpr int kSlot = sizeof(Slot), kQ = offsetof(Slot, q), kV = offsetof(Slot, v),
              kGates = offsetof(Slot, gates);

// What the lanes leave of a token: their parts of q.S of each head, and in w d of head min(part, kHeads - 1).
struct Kept {
  float4 lanes[kWarps][kKeptRow];
};
constexpr int kToken = sizeof(Kept);

template <int kTile>
struct Shared {
  Slot slots[kStages * kTile + 1];  // the last is the first once more, so that a tile's successor follows it
  Kept kept[2][kTile];
};

__device__ inline void sync_all() {
  asm volatile("bar.sync 0, %0;" ::"n"(kWarps * 32 + kHelpers) : "memory");
}
__device__ inline void sync_helpers() { asm volatile("bar.sync 1, %0;" ::"n"(kHelpers) : "memory"); }

struct Place {
  int key_head, head, column;  // the block's first value head and first column
};

// A helper's share of the copying of a tile: a sixteenth of four rows of k and q, a column of v, one head's
// gates (or k.q).
template <int kHeads, int kTile>
struct Copies {
  static constexpr int kRows = kHelpers / 32, kValueRows = kHelpers / kColumns;
  const float *k, *q, *v, *gate;  // of the next tile
  int64_t row_step, value_step, head_step, gate_step;
  int T, row, value_row, gate_row, to, value_to, gate_to;
  bool wants_gate, is_kq;

  __device__ inline Copies(const ops::GdnScanArgs& a, const Place& p, int tid)
      : row_step(a.s.hk * kD), value_step(a.s.hv * kD), head_step(a.s.hk * kD), T(static_cast<int>(a.s.T)) {
    const int c = tid % 32, column = tid % kColumns, h = tid % 4;
    row = tid / 32, value_row = tid / kColumns, gate_row = tid / 4;
    to = row * kSlot + (c / 4 * kPartStride + c % 4 * 4) * 4;
    k = a.kn + int64_t{p.key_head} * kD + c * 4;
    q = a.qn + int64_t{p.key_head} * kD + c * 4;
    value_to = value_row * kSlot + kV + column * 16;
    v = a.vc + int64_t{p.head} * kD + p.column + column;
    gate_to = gate_row * kSlot + kGates + h * 8;
    is_kq = h == kMostHeads;
    wants_gate = gate_row < kTile && (h < kHeads || is_kq);
    gate = is_kq ? a.kq + p.key_head : a.gb + (p.head + h * a.s.hk) * 2;
    gate_step = is_kq ? a.s.hk : a.s.hv * 2;
  }

  __device__ inline void copy_gate(uint8_t* slots, int64_t token) const {
    if (is_kq) {
      copy_async<4>(slots + gate_to, gate + token * gate_step, true);
    } else {
      copy_async<8>(slots + gate_to, gate + token * gate_step, true);
    }
  }
  __device__ inline void copy_values(uint8_t* slots, const float* from, int i) const {
#pragma unroll
    for (int h = 0; h < kHeads; ++h, from += head_step) {
      copy_async<4>(slots + value_to + i * (kValueRows * kSlot) + h * 4, from, true);
    }
  }

  // Tokens first .. of the pass to slots; past the end the last token is taken again.
  __device__ inline void tile(uint8_t* slots, int first) const {
    if (first + kTile <= T) {
      const float *from_k = k + (first + row) * row_step, *from_q = q + (first + row) * row_step;
#pragma unroll
      for (int i = 0; i < kTile / kRows; ++i, from_k += kRows * row_step, from_q += kRows * row_step) {
        copy_async<16>(slots + to + i * (kRows * kSlot), from_k, true);
        copy_async<16>(slots + to + i * (kRows * kSlot) + kQ, from_q, true);
      }
      const float* from_v = v + (first + value_row) * value_step;
#pragma unroll
      for (int i = 0; i < kTile / kValueRows; ++i, from_v += kValueRows * value_step) {
        copy_values(slots, from_v, i);
      }
    } else {
      for (int i = 0; i < kTile / kRows; ++i) {
        const int64_t at = min(first + row + i * kRows, T - 1) * row_step;
        copy_async<16>(slots + to + i * (kRows * kSlot), k + at, true);
        copy_async<16>(slots + to + i * (kRows * kSlot) + kQ, q + at, true);
      }
      for (int i = 0; i < kTile / kValueRows; ++i) {
        copy_values(slots, v + min(first + value_row + i * kValueRows, T - 1) * value_step, i);
      }
    }
    if (wants_gate) copy_gate(slots, min(first + gate_row, T - 1));
  }
  // Token `first` alone, by the threads that copy a tile's first token.
  __device__ inline void token(uint8_t* slot, int first) const {
    const int at = min(first, T - 1);
    if (row == 0) {
      copy_async<16>(slot + to, k + at * row_step, true);
      copy_async<16>(slot + to + kQ, q + at * row_step, true);
    }
    if (value_row == 0) copy_values(slot, v + at * value_step, 0);
    if (wants_gate && gate_row == 0) copy_gate(slot, at);
  }
};
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// The outputs of a tile, by the helpers: a thread takes a token and a column.
template <int kHeads, int kTile>
__device__ inline void write_outputs(const Slot* slots, const Kept* kept, float* out, int count, int hv,
                                     int hk, int tid) {
#pragma unroll
  for (int j = 0; j < kTile * kColumns / kHelpers; ++j) {
    const int t = j * (kHelpers / kColumns) + tid / kColumns, c = tid % kColumns;
    const float4* from = &kept[t].lanes[c / 4][c % 4];
    float4 parts[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) parts[i] = from[4 * i];
    const float* gates = slots[t].gates;
    if (t >= count) continue;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const auto q = [&](int i) { return h == 0 ? parts[i].x : h == 1 ? parts[i].y : parts[i].z; };
      const float total = ((q(0) + q(1)) + (q(2) + q(3))) + ((q(4) + q(5)) + (q(6) + q(7)));
      out[int64_t{t} * hv * kD + h * hk * kD + c] =
          __fmaf_rn(gates[2 * kMostHeads], parts[h].w, gates[2 * h] * total);
    }
  }
}

template <int kHeads, int kTile>
__device__ void help(Shared<kTile>& s, const ops::GdnScanArgs& a, const Place& p, int tiles) {
  const int tid = static_cast<int>(threadIdx.x) - kWarps * 32;
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv), T = static_cast<int>(a.s.T);
  const Copies<kHeads, kTile> copies(a, p, tid);
  uint8_t* const slots = reinterpret_cast<uint8_t*>(s.slots);
  uint8_t* const again = slots + kStages * kTile * kSlot;
  for (int n = 0; n < kStages; ++n) {
    copies.tile(slots + n * kTile * kSlot, n * kTile);
    if (n == 0) copies.token(again, 0);
    end_copies();
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  sync_all();  // tiles 0 and 1 are there
  float* out = a.o + int64_t{p.head} * kD + p.column;
  for (int n = 0, stage = 0; n < tiles; ++n) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    sync_all();  // tile n is worked through, tile n + 2 is there
    write_outputs<kHeads, kTile>(s.slots + stage * kTile, s.kept[n % 2], out + int64_t{n} * kTile * hv * kD,
                                 T - n * kTile, hv, hk, tid);
    sync_helpers();
    copies.tile(slots + stage * kTile * kSlot, (n + kStages) * kTile);
    if (stage == 0) copies.token(again, (n + kStages) * kTile);
    end_copies();
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// x[i] .. x[i + 3].
__device__ inline void load_quarter(float (&x)[kPart], const uint8_t* from, int i) {
  const float4 y = *reinterpret_cast<const float4*>(from + i * 4);
  x[i] = y.x, x[i + 1] = y.y, x[i + 2] = y.z, x[i + 3] = y.w;
}
__device__ inline void load_row(float (&x)[kPart], const uint8_t* from) {
#pragma unroll
  for (int i = 0; i < kPart; i += 4) load_quarter(x, from, i);
}

// What a lane keeps from token to token: its state, and of the token that comes next the part of k.S, q,
// gates and v.
template <int kHeads>
struct Lane {
  float S[kHeads][kPart], pk[kHeads], q[kPart], decay[kMostHeads], beta[kMostHeads], v[kMostHeads];
  int part, own, row;  // its column in the block; its part's bytes in a row of k
  int zero;            // 0, which the compiler does not know

  __device__ inline void load_gates(const uint8_t* slot) {
    const float4 x = *reinterpret_cast<const float4*>(slot + kGates);
    decay[0] = x.x, beta[0] = x.y, decay[1] = x.z, beta[1] = x.w;
    if constexpr (kHeads == 3) {
      const float2 z = *reinterpret_cast<const float2*>(slot + kGates + 16);
      decay[2] = z.x, beta[2] = z.y;
    }
  }
  __device__ inline void load_values(const uint8_t* slot) {
    const float4 y = *reinterpret_cast<const float4*>(slot + kV + own * 16);
    v[0] = y.x, v[1] = y.y, v[2] = y.z;
  }
};

// v, which is only known once the sums `after` are: the compiler cannot move what uses it in front of them.
template <int kHeads>
__device__ inline int tie(int v, const float (&after)[kHeads], int zero) {
  int bits = __float_as_int(after[0]);
#pragma unroll
  for (int h = 1; h < kHeads; ++h) bits |= __float_as_int(after[h]);
  return (bits & zero) | v;
}

// b if `second`, else a; by selection, never by a branch.
__device__ inline float pick(float a, float b, int second) {
  float r;
  asm("{ .reg .pred p; setp.ne.s32 p, %3, 0; selp.f32 %0, %1, %2, p; }"
      : "=f"(r)
      : "f"(b), "f"(a), "r"(second));
  return r;
}

// One token, whose k.S is under way in l.pk and whose k is at hand; `slot` holds the token after it, whose k
// goes to `next`. The q products are tied in between the shuffles: left to itself the compiler puts them
// elsewhere and the warp waits.
template <int kHeads>
__device__ inline void scan_token(Lane<kHeads>& l, const float (&k)[kPart], float (&next)[kPart],
                                  const uint8_t* slot, uint8_t* kept) {
  // Where things stand, as found by timing four thousand orders on an H200 (docs/lab/cuda-gdn.md): they
  // decide which registers ptxas takes and so how often a fma waits for its operands. Rows are those of the
  // update; -1 is before it.
  constexpr int kCut[4] = {0, 2, 14, 16};  // rows of q.S behind each shuffle
  constexpr int kLoadK[4] = {-1, -1, 3, 3}, kLoadQ[4] = {10, 10, 12, 15};
  constexpr int kLoadGates = -1, kLoadValues = 15, kKeep = 2;
  float pq[kHeads], d[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) pq[h] = 0.0f;
#pragma unroll
  for (int level = 0; level < 3; ++level) {
    const int mask = level == 0 ? 4 : tie(4 << level, pq, l.zero);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = l.pk[h] + __shfl_xor_sync(kAllLanes, l.pk[h], mask);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      if (i < kCut[level] || i >= kCut[level + 1]) continue;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) pq[h] = __fmaf_rn(l.q[i], l.S[h][i], pq[h]);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) l.S[h][i] = l.decay[h] * l.S[h][i];
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float m = l.decay[h] * l.pk[h];
    d[h] = l.beta[h] * (l.v[h] - m);
  }
  float own = d[0];
#pragma unroll
  for (int h = 1; h < kHeads; ++h) own = pick(own, d[h], l.part >= h);
  const auto after = [&](int row) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (kLoadK[j] == row) load_quarter(next, slot + l.row, 4 * j);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (kLoadQ[j] == row) load_quarter(l.q, slot + kQ + l.row, 4 * j);
    }
    if (kLoadGates == row) l.load_gates(slot);
    if (kLoadValues == row) l.load_values(slot);
    if (kKeep != row) return;
    *reinterpret_cast<float4*>(kept) = {pq[0], kHeads > 1 ? pq[min(1, kHeads - 1)] : 0.0f,
                                        kHeads > 2 ? pq[kHeads - 1] : 0.0f, own};
  };
#pragma unroll
  for (int h = 0; h < kHeads; ++h) l.pk[h] = 0.0f;
  after(-1);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      const int h = (i + j) % kHeads;
      l.S[h][i] = __fmaf_rn(k[i], d[h], l.S[h][i]);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = __fmaf_rn(next[i], l.S[h][i], l.pk[h]);
    after(i);
  }
}

// blockIdx.x: columns of a head; blockIdx.y: first value head; its key head is head % hk.
template <int kHeads, int kTile>
__global__ void __launch_bounds__(kWarps * 32 + kHelpers, 1) gdn_scan_128(ops::GdnScanArgs a) {
  extern __shared__ __align__(16) uint8_t memory[];
  auto& s = *reinterpret_cast<Shared<kTile>*>(memory);
  const int hk = static_cast<int>(a.s.hk), head = static_cast<int>(blockIdx.y);
  const Place p{head % hk, head, static_cast<int>(blockIdx.x) * kColumns};
  const int T = static_cast<int>(a.s.T), tiles = (T + kTile - 1) / kTile;
  const int lane = lane_id(), warp = __shfl_sync(kAllLanes, warp_id(), 0);
  if (warp >= kWarps) {
    help<kHeads, kTile>(s, a, p, tiles);
    return;
  }
  Lane<kHeads> l;
  l.part = lane / 4, l.own = warp * 4 + lane % 4, l.row = l.part * kPartStride * 4, l.zero = T >> 31;
  float* state = a.state + (int64_t{head} * kD + l.part * kPart) * kD + p.column + l.own;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    l.pk[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < kPart; ++i) l.S[h][i] = state[(int64_t{h} * hk * kD + i) * kD];
  }
  float k[kPart], next[kPart];
  const uint8_t* const slots = reinterpret_cast<const uint8_t*>(s.slots);
  const uint8_t* const last_stage = slots + (kStages - 1) * kTile * kSlot;
  uint8_t* const first_kept = reinterpret_cast<uint8_t*>(&s.kept[0][0].lanes[warp][lane]);
  sync_all();
  load_row(k, slots + l.row);
  load_row(l.q, slots + kQ + l.row);
  l.load_gates(slots);
  l.load_values(slots);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = __fmaf_rn(k[i], l.S[h][i], l.pk[h]);
  }
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
    sync_all();
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) state[(int64_t{h} * hk * kD + i) * kD] = l.S[h][i];
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
                           static_cast<int>(sizeof(Shared<kTile>)));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(gdn_scan_128<kHeads, kTile>, dim3(kD / kColumns, static_cast<unsigned>(a.s.hv / kHeads)),
               kWarps * 32 + kHelpers, sizeof(Shared<kTile>), a);
}

// Short tiles for GPUs whose blocks get less than the 151 KB of long ones.
template <int kHeads>
void launch_128(Queue& queue, const ops::GdnScanArgs& a) {
  static const bool large = [] {
    int device = 0, most = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           most >= static_cast<int>(sizeof(Shared<16>));
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
