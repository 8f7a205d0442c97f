// The gated delta rule, token after token. Eight lanes share a value column, one for each of the contract's
// eight parts of the key dimension, and keep their part of the state in registers.
//
// gdn_scan_128 (heads of 128): a warp holds 4 columns of kHeads value heads that read one key head (tiled
// order: heads k, k+hk, ...), so a lane has kHeads*16 state values and reads k and q once for all of them. At
// the model's 16 key and 48 value heads that is 512 warps, one for each scheduler of a large GPU, so nothing
// but the warp's own independent work hides a latency. Bound: 4*D*D operations per head and token (186 cycles
// a token on 132 processors). The chain is k.S -> 3 shuffles -> d -> S; the q products and decay*S are there
// to fill the waits, and the next token's loads are under way. q sums wait in shared memory, in their eight
// parts, until a tile of tokens is done. Copies into tiles are predicated, never branched round.
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace argon::cuda {
namespace {

constexpr int kD = 128;
constexpr int kPart = 16;        // keys of a lane
constexpr int kPartStride = 20;  // in shared memory: the 8 parts of a row fall on different banks
constexpr int kTile = 16;
constexpr int kWarps = 4;
constexpr int kColumns = 4 * kWarps;  // of a block

template <int kHeads>
struct Tile {
  float k[kTile][8 * kPartStride];
  float q[kTile][8 * kPartStride];
  float v[kTile][kHeads][kColumns];
  float gates[kTile][8];  // decay, beta of each head; at 6: k.q
};

// What a warp keeps of a tile's tokens until it has worked through them: the parts of the q sums and d.
template <int kHeads>
struct Kept {
  float q[kTile][kHeads][4][8];
  float d[kTile][kHeads][4];
};

// Copies kBytes if `wanted`, without a branch.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from, bool wanted = true) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(at),
        "l"(from), "r"(static_cast<int>(wanted)));
  } else {
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(at),
        "l"(from), "r"(static_cast<int>(wanted)), "n"(kBytes));
  }
}

// Tokens first .. of the pass into a tile; past the end the last token is taken again.
template <int kHeads>
__device__ inline void load_tile(Tile<kHeads>& tile, const ops::GdnScanArgs& a, int first, int key_head,
                                 int head, int column) {
  constexpr int kThreads = kWarps * 32;
  const int last = static_cast<int>(a.s.T) - 1, tid = static_cast<int>(threadIdx.x);
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv);
#pragma unroll
  for (int j = 0; j < kTile * 32 / kThreads; ++j) {
    const int t = j * (kThreads / 32) + tid / 32, c = tid % 32;
    const int64_t from = (int64_t{min(first + t, last)} * hk + key_head) * kD + c * 4;
    const int to = c / 4 * kPartStride + c % 4 * 4;
    copy_async<16>(&tile.k[t][to], a.kn + from);
    copy_async<16>(&tile.q[t][to], a.qn + from);
  }
  constexpr int kChunks = kHeads * (kColumns / 4);
#pragma unroll
  for (int j = 0; j < (kTile * kChunks + kThreads - 1) / kThreads; ++j) {
    const int i = j * kThreads + tid, c = i % (kColumns / 4), h = i / (kColumns / 4) % kHeads,
              t = i / kChunks;
    const int64_t from = (int64_t{min(first + t, last)} * hv + head + h * hk) * kD + column + c * 4;
    copy_async<16>(&tile.v[t % kTile][h][c * 4], a.vc + from, t < kTile);
  }
  static_assert(kTile * (kHeads + 1) <= kThreads);
  const int t = tid / (kHeads + 1), h = tid % (kHeads + 1);
  const int64_t token = min(first + t, last);
  copy_async<8>(&tile.gates[t % kTile][2 * min(h, kHeads - 1)],
                a.gb + (token * hv + head + min(h, kHeads - 1) * hk) * 2, t < kTile && h < kHeads);
  copy_async<4>(&tile.gates[t % kTile][6], a.kq + token * hk + key_head, t < kTile && h == kHeads);
}

// What a lane needs of one token.
template <int kHeads>
struct Token {
  float k[kPart], q[kPart], v[kHeads], gates[8];

  __device__ inline void load(const Tile<kHeads>& tile, int t, int part, int own) {
#pragma unroll
    for (int i = 0; i < kPart; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(&tile.k[t][part * kPartStride + i]);
      k[i] = x.x, k[i + 1] = x.y, k[i + 2] = x.z, k[i + 3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < kPart; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(&tile.q[t][part * kPartStride + i]);
      q[i] = x.x, q[i + 1] = x.y, q[i + 2] = x.z, q[i + 3] = x.w;
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) v[h] = tile.v[t][h][own];
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(&tile.gates[t][i]);
      gates[i] = x.x, gates[i + 1] = x.y, gates[i + 2] = x.z, gates[i + 3] = x.w;
    }
  }
};

// v, which is only known once the sums `after` are: the compiler cannot move what uses it in front of them.
// `zero` is 0, which the compiler does not know.
template <int kHeads>
__device__ inline int tie(int v, const float (&after)[kHeads], int zero) {
  int bits = __float_as_int(after[0]);
#pragma unroll
  for (int h = 1; h < kHeads; ++h) bits |= __float_as_int(after[h]);
  return (bits & zero) | v;
}

// One token. The q sums stay in their parts; `kept` gets them and d. The q products are tied in between the
// shuffles of the k sums: left to itself the compiler puts them elsewhere and the warp waits.
template <int kHeads>
__device__ inline void scan_token(float (&S)[kHeads][kPart], const Token<kHeads>& x, Kept<kHeads>& kept,
                                  int t, int part, int column, int zero) {
  float pk[kHeads], pq[kHeads], d[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) pk[h] = 0.0f;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) pk[h] = __fmaf_rn(x.k[i], S[h][i], pk[h]);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) pq[h] = __int_as_float(tie(0, pk, zero));
#pragma unroll
  for (int level = 0; level < 3; ++level) {
    const int mask = level == 0 ? 1 : tie(1 << level, pq, zero);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) pk[h] = pk[h] + __shfl_xor_sync(kAllLanes, pk[h], mask);
#pragma unroll
    for (int i = kPart * level / 3; i < kPart * (level + 1) / 3; ++i) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) pq[h] = __fmaf_rn(x.q[i], S[h][i], pq[h]);
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) kept.q[t][h][column][part] = pq[h];
  float mine = 0.0f;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float m = x.gates[2 * h] * pk[h];
    d[h] = x.gates[2 * h + 1] * (x.v[h] - m);
    mine = part == h ? d[h] : mine;
  }
  // Lanes of other parts repeat the last head's value.
  kept.d[t][min(part, kHeads - 1)][column] = part < kHeads ? mine : d[kHeads - 1];
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) S[h][i] = __fmaf_rn(x.k[i], d[h], x.gates[2 * h] * S[h][i]);
  }
}

// The outputs of a tile's tokens: a lane takes one column of every 8th pair of token and head.
template <int kHeads>
__device__ inline void write_outputs(const Tile<kHeads>& tile, const Kept<kHeads>& kept, float* out,
                                     int count, int hv, int hk) {
  const int lane = lane_id(), column = lane % 4;
  // Steps of 8 tokens: kHeads turns, whose token and head repeat.
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    const int pair = j * 8 + lane / 4, first = pair / kHeads, h = pair % kHeads;
    float* to = out + first * hv * kD + h * hk * kD + column;
#pragma unroll
    for (int t = first, i = 0; i < kTile / 8; t += 8, ++i, to += 8 * hv * kD) {
      const float4 a = *reinterpret_cast<const float4*>(&kept.q[t][h][column][0]);
      const float4 b = *reinterpret_cast<const float4*>(&kept.q[t][h][column][4]);
      const float total = ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
      const float o = __fmaf_rn(tile.gates[t][6], kept.d[t][h][column], tile.gates[t][2 * h] * total);
      if (t < count) *to = o;
    }
  }
}

// blockIdx.x: columns of a head; blockIdx.y: first value head; its key head is head % hk.
template <int kHeads>
__global__ void __launch_bounds__(kWarps * 32, 1) gdn_scan_128(ops::GdnScanArgs a) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto* tiles = reinterpret_cast<Tile<kHeads>*>(shared);
  auto& kept = reinterpret_cast<Kept<kHeads>*>(tiles + 2)[warp_id()];
  const int lane = lane_id(), part = lane % 8, own = warp_id() * 4 + lane / 8;
  const int column = static_cast<int>(blockIdx.x) * kColumns, head = static_cast<int>(blockIdx.y);
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv), key_head = head % hk;
  const int T = static_cast<int>(a.s.T), zero = T >> 31;

  load_tile(tiles[0], a, 0, key_head, head, column);
  asm volatile("cp.async.commit_group;");
  float S[kHeads][kPart];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float* from = a.state + (int64_t{head + h * hk} * kD + part * kPart) * kD + column + own;
#pragma unroll
    for (int i = 0; i < kPart; ++i) S[h][i] = from[i * kD];
  }
  float* out = a.o + int64_t{head} * kD + column + warp_id() * 4;
  int which = 0;
  for (int first = 0; first < T; first += kTile, which ^= 1) {
    load_tile(tiles[which ^ 1], a, first + kTile, key_head, head, column);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    const Tile<kHeads>& tile = tiles[which];
    const int count = min(T - first, kTile);
    Token<kHeads> x, y;
    x.load(tile, 0, part, own);
    int t = 0;
    for (; t + 1 < count; t += 2) {
      y.load(tile, t + 1, part, own);
      scan_token<kHeads>(S, x, kept, t, part, lane / 8, zero);
      x.load(tile, min(t + 2, kTile - 1), part, own);
      scan_token<kHeads>(S, y, kept, t + 1, part, lane / 8, zero);
    }
    if (t < count) scan_token<kHeads>(S, x, kept, t, part, lane / 8, zero);
    __syncwarp();
    write_outputs(tile, kept, out + int64_t{first} * hv * kD, count, hv, hk);
    __syncthreads();
  }
  asm volatile("cp.async.wait_all;");
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float* to = a.state + (int64_t{head + h * hk} * kD + part * kPart) * kD + column + own;
#pragma unroll
    for (int i = 0; i < kPart; ++i) to[i * kD] = S[h][i];
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

template <int kHeads>
void launch_128(Queue& queue, const ops::GdnScanArgs& a) {
  const auto heads = static_cast<unsigned>(a.s.hv / kHeads);
  constexpr size_t kBytes = 2 * sizeof(Tile<kHeads>) + kWarps * sizeof(Kept<kHeads>);
  static const cudaError_t raised =
      cudaFuncSetAttribute(gdn_scan_128<kHeads>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(gdn_scan_128<kHeads>, dim3(kD / kColumns, heads), kWarps * 32, kBytes, a);
}

}  // namespace

void run(Queue& queue, const ops::GdnScanArgs& a) {
  if (a.s.T == 0) return;
  if (a.s.D != kD) {
    queue.launch(gdn_scan_any, blocks_for(a.s.hv * a.s.D * 8, 128), 128, 0, a);
  } else if (a.s.hv == 3 * a.s.hk) {
    launch_128<3>(queue, a);
  } else if (a.s.hv == 2 * a.s.hk) {
    launch_128<2>(queue, a);
  } else {
    launch_128<1>(queue, a);
  }
}

}  // namespace argon::cuda
