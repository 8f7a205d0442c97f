// The gated delta rule, token after token. Eight lanes share a value column, one for each of the contract's
// eight parts of the key dimension, and keep their part of the state in registers.
//
// gdn_scan_128 (heads of 128): a warp holds 4 columns of kHeads value heads that read one key head (tiled
// order: heads k, k+hk, ...), so a lane has kHeads*16 state values and reads k and q once for all of them. At
// the model's 16 key and 48 value heads that is 512 warps, one for each scheduler of a large GPU, so nothing
// but the warp's own independent work hides a latency. Bound: 4*D*D operations per head and token (192 cycles
// a token on 128 processors). docs/lab/cuda-gdn.md counts what a token costs.
//   - A token's chain is k.S -> 3 shuffles -> d -> S. The update of token t and k.S of token t+1 go together;
//     q.S and decay*S fill the waits for the shuffles.
//   - Four more warps copy tiles of tokens into shared memory and work out the outputs of the last tile from
//     the parts of q.S and the d that the scanning warps leave there: one barrier a tile.
//   - Lanes that read the same k lie side by side (part = lane / 4), which halves the load unit's work.
#include <cstddef>

#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kPart = 16;             // keys of a lane
constexpr int kPartStride = 20;       // in shared memory: the 8 parts of a row fall on different banks
constexpr int kWarps = 4;             // that scan
constexpr int kColumns = 4 * kWarps;  // of a block
constexpr int kHelpers = 128;         // threads that copy and write
constexpr int kMostHeads = 3;
constexpr int kStages = 3;  // tiles of tokens: one is worked on, the next is there, one is on its way

// One token's input.
struct Slot {
  float k[8 * kPartStride];
  float q[8 * kPartStride];
  float4 v[kColumns];  // of the heads
  float gates[8];      // decay of each head; at 3: k.q; from 4 on: beta of each head
};

template <int kTile>
struct Shared {
  Slot slots[kStages * kTile];
  // What a lane leaves of a token: its part of q.S of each head, and in w d of head min(part, kHeads - 1).
  float4 kept[2][kTile][kWarps][32];
};

template <int kBytes>
__device__ inline void copy_async(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(kBytes) : "memory");
  }
}

__device__ inline void sync_all() {
  asm volatile("bar.sync 0, %0;" ::"n"(kWarps * 32 + kHelpers) : "memory");
}
__device__ inline void sync_helpers() { asm volatile("bar.sync 1, %0;" ::"n"(kHelpers) : "memory"); }

struct Place {
  int key_head, head, column;  // the block's first value head and first column
};

// Tokens first .. of the pass, by the helpers; past the end the last token is taken again.
template <int kHeads, int kTile>
__device__ inline void load_tile(Slot* slots, const ops::GdnScanArgs& a, const Place& p, int first, int tid) {
  const int last = static_cast<int>(a.s.T) - 1, hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv);
#pragma unroll
  for (int j = 0; j < kTile * 32 / kHelpers; ++j) {
    const int t = j * (kHelpers / 32) + tid / 32, c = tid % 32;
    const int64_t from = (int64_t{min(first + t, last)} * hk + p.key_head) * kD + c * 4;
    const int to = c / 4 * kPartStride + c % 4 * 4;
    copy_async<16>(&slots[t].k[to], a.kn + from);
    copy_async<16>(&slots[t].q[to], a.qn + from);
  }
#pragma unroll
  for (int j = 0; j < kTile * kColumns / kHelpers; ++j) {
    const int t = j * (kHelpers / kColumns) + tid / kColumns, c = tid % kColumns;
    const float* from = a.vc + (int64_t{min(first + t, last)} * hv + p.head) * kD + p.column + c;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      copy_async<4>(reinterpret_cast<float*>(&slots[t].v[c]) + h, from + h * hk * kD);
    }
  }
  const int t = tid / 8, i = tid % 8, h = i % 4;
  if (t < kTile && (h < kHeads || i == 3)) {
    const int64_t token = min(first + t, last);
    const float* from =
        i == 3 ? a.kq + token * hk + p.key_head : a.gb + (token * hv + p.head + h * hk) * 2 + i / 4;
    copy_async<4>(&slots[t].gates[i], from);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// The outputs of a tile, by the helpers: a thread takes a token and a column.
template <int kHeads, int kTile>
__device__ inline void write_outputs(const Slot* slots, const float4 (*kept)[kWarps][32], float* out,
                                     int count, int hv, int hk, int tid) {
#pragma unroll
  for (int j = 0; j < kTile * kColumns / kHelpers; ++j) {
    const int t = j * (kHelpers / kColumns) + tid / kColumns, c = tid % kColumns;
    const float4* from = &kept[t][c / 4][c % 4];
    float4 parts[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) parts[i] = from[4 * i];
    const float4 gates = *reinterpret_cast<const float4*>(slots[t].gates);
    const float decay[kMostHeads] = {gates.x, gates.y, gates.z};
    if (t >= count) continue;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const auto q = [&](int i) { return h == 0 ? parts[i].x : h == 1 ? parts[i].y : parts[i].z; };
      const float total = ((q(0) + q(1)) + (q(2) + q(3))) + ((q(4) + q(5)) + (q(6) + q(7)));
      out[int64_t{t} * hv * kD + h * hk * kD + c] = __fmaf_rn(gates.w, parts[h].w, decay[h] * total);
    }
  }
}

// What a lane keeps from token to token: its state, and of the token that comes next the part of k.S, k, q,
// gates and v.
template <int kHeads>
struct Lane {
  float S[kHeads][kPart], pk[kHeads], q[kPart], gates[8];
  float4 v;
};

__device__ inline void load_row(float (&x)[kPart], const uint8_t* from) {
#pragma unroll
  for (int i = 0; i < kPart; i += 4) {
    const float4 y = *reinterpret_cast<const float4*>(from + i * 4);
    x[i] = y.x, x[i + 1] = y.y, x[i + 2] = y.z, x[i + 3] = y.w;
  }
}
__device__ inline void load_k(float (&k)[kPart], const uint8_t* slot, int part) {
  load_row(k, slot + part * kPartStride * 4);
}
template <int kHeads>
__device__ inline void load_rest(Lane<kHeads>& l, const uint8_t* slot, int part, int own) {
  load_row(l.q, slot + offsetof(Slot, q) + part * kPartStride * 4);
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 x = *reinterpret_cast<const float4*>(slot + offsetof(Slot, gates) + i * 4);
    l.gates[i] = x.x, l.gates[i + 1] = x.y, l.gates[i + 2] = x.z, l.gates[i + 3] = x.w;
  }
  l.v = *reinterpret_cast<const float4*>(slot + offsetof(Slot, v) + own * 16);
}

// v, which is only known once the sums `after` are: the compiler cannot move what uses it in front of them.
// `zero` is 0, which the compiler does not know.
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

struct Fixed {
  int part, own, zero;
};

// One token, whose k.S is under way in l.pk and whose k is at hand; `slot` holds the token after it, whose k
// goes to `next`. The q products are tied in between the shuffles: left to itself the compiler puts them
// elsewhere and the warp waits.
template <int kHeads>
__device__ inline void scan_token(Lane<kHeads>& l, const float (&k)[kPart], float (&next)[kPart],
                                  const uint8_t* slot, float4* kept, const Fixed& f) {
  load_k(next, slot, f.part);
  float pq[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) pq[h] = 0.0f;
  constexpr int kCut[4] = {0, 7, 14, 16};
#pragma unroll
  for (int level = 0; level < 3; ++level) {
    const int mask = level == 0 ? 4 : tie(4 << level, pq, f.zero);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = l.pk[h] + __shfl_xor_sync(kAllLanes, l.pk[h], mask);
#pragma unroll
    for (int i = kCut[level]; i < kCut[level + 1]; ++i) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) pq[h] = __fmaf_rn(l.q[i], l.S[h][i], pq[h]);
    }
  }
  // x*y + -0 is x*y, zeros included.
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.S[h][i] = __fmaf_rn(l.gates[h], l.S[h][i], -0.0f);
  }
  const float v[kMostHeads] = {l.v.x, l.v.y, l.v.z};
  float d[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float m = l.gates[h] * l.pk[h];
    d[h] = l.gates[4 + h] * (v[h] - m);
  }
  float own = d[0];
#pragma unroll
  for (int h = 1; h < kHeads; ++h) own = pick(own, d[h], f.part >= h);
  *kept = {pq[0], kHeads > 1 ? pq[min(1, kHeads - 1)] : 0.0f, kHeads > 2 ? pq[kHeads - 1] : 0.0f, own};
  load_rest(l, slot, f.part, f.own);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) l.pk[h] = 0.0f;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.S[h][i] = __fmaf_rn(k[i], d[h], l.S[h][i]);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = __fmaf_rn(next[i], l.S[h][i], l.pk[h]);
  }
}

template <int kHeads, int kTile>
__device__ void help(Shared<kTile>& s, const ops::GdnScanArgs& a, const Place& p, int tiles) {
  const int tid = static_cast<int>(threadIdx.x) - kWarps * 32;
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv), T = static_cast<int>(a.s.T);
  for (int n = 0; n < kStages; ++n) load_tile<kHeads, kTile>(s.slots + n * kTile, a, p, n * kTile, tid);
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  sync_all();  // tiles 0 and 1 are there
  float* out = a.o + int64_t{p.head} * kD + p.column;
  for (int n = 0, stage = 0; n < tiles; ++n) {
    Slot* slots = s.slots + stage * kTile;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    sync_all();  // tile n is worked through, tile n + 2 is there
    write_outputs<kHeads, kTile>(slots, s.kept[n % 2], out + int64_t{n} * kTile * hv * kD, T - n * kTile, hv,
                                 hk, tid);
    sync_helpers();
    load_tile<kHeads, kTile>(slots, a, p, (n + kStages) * kTile, tid);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// blockIdx.x: columns of a head; blockIdx.y: first value head; its key head is head % hk.
template <int kHeads, int kTile>
__global__ void __launch_bounds__(kWarps * 32 + kHelpers, 1) gdn_scan_128(ops::GdnScanArgs a) {
  extern __shared__ __align__(16) uint8_t memory[];
  auto& s = *reinterpret_cast<Shared<kTile>*>(memory);
  const int hk = static_cast<int>(a.s.hk), head = static_cast<int>(blockIdx.y);
  const Place p{head % hk, head, static_cast<int>(blockIdx.x) * kColumns};
  const int T = static_cast<int>(a.s.T), tiles = (T + kTile - 1) / kTile;
  if (warp_id() >= kWarps) {
    help<kHeads, kTile>(s, a, p, tiles);
    return;
  }
  const int lane = lane_id();
  const Fixed f{lane / 4, warp_id() * 4 + lane % 4, T >> 31};
  float* state = a.state + (int64_t{head} * kD + f.part * kPart) * kD + p.column + f.own;
  Lane<kHeads> l;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    l.pk[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < kPart; ++i) l.S[h][i] = state[(int64_t{h} * hk * kD + i) * kD];
  }
  float k[kPart], next[kPart];
  const uint8_t* slots = reinterpret_cast<const uint8_t*>(s.slots);
  sync_all();
  load_k(k, slots, f.part);
  load_rest(l, slots, f.part, f.own);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) l.pk[h] = __fmaf_rn(k[i], l.S[h][i], l.pk[h]);
  }
  constexpr int kSlot = sizeof(Slot), kToken = kWarps * 32;
  float4* const first_kept = &s.kept[0][0][warp_id()][lane];
  int at = 0;
  for (int n = 0; n < tiles; ++n) {
    const int count = min(T - n * kTile, kTile);
    float4* kept = n % 2 == 0 ? first_kept : first_kept + kTile * kToken;
    int t = 0;
    for (; t + 1 < count; t += 2, kept += 2 * kToken) {
      const int then = at + 2 * kSlot == kStages * kTile * kSlot ? 0 : at + 2 * kSlot;
      scan_token(l, k, next, slots + at + kSlot, kept, f);
      scan_token(l, next, k, slots + then, kept + kToken, f);
      at = then;
    }
    // Only the pass's last tile can end here.
    if (t < count) scan_token(l, k, next, slots + at + kSlot, kept, f);
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

// Short tiles for GPUs whose blocks get less than the 141 KB of long ones.
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
