// The gated delta rule, token after token. Eight lanes share a value column, one for each of the contract's
// eight parts of the key dimension, and keep their part of the state in registers.
//
// gdn_scan_128 (heads of 128): a warp holds 4 columns of kHeads value heads that read one key head (tiled
// order: heads k, k+hk, ...), so a lane has kHeads*16 state values and reads k and q once for all of them. At
// the model's 16 key and 48 value heads that is 512 warps, one for each scheduler of a large GPU: what bounds
// it is the 4*D*D operations per head and token (186 cycles a token on 132 processors) and the chain
// k.S -> 3 shuffles -> d -> S; the q products and decay*S fill the waiting time of the shuffles. k, q, v and
// gates of kTile tokens are copied to shared memory while the previous tile is worked on.
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
  float2 gb[kTile][kHeads];
  float kq[kTile];
};

__device__ inline void copy_async16(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}
__device__ inline void copy_async8(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from));
}
__device__ inline void copy_async4(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from));
}

// Tokens first .. of the pass into a tile; rows past the end are left as they are.
template <int kHeads>
__device__ void load_tile(Tile<kHeads>& tile, const ops::GdnScanArgs& a, int64_t first, int key_head,
                          int head, int column) {
  const int count = static_cast<int>(a.s.T - first < kTile ? a.s.T - first : kTile);
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv);
  for (int i = threadIdx.x; i < count * 64; i += kWarps * 32) {
    const int t = i / 64, c = i % 32;
    const int64_t from = ((first + t) * hk + key_head) * kD + c * 4;
    const int to = c / 4 * kPartStride + c % 4 * 4;
    copy_async16(i % 64 < 32 ? &tile.k[t][to] : &tile.q[t][to], (i % 64 < 32 ? a.kn : a.qn) + from);
  }
  for (int i = threadIdx.x; i < count * kHeads * (kColumns / 4); i += kWarps * 32) {
    const int c = i % (kColumns / 4), h = i / (kColumns / 4) % kHeads, t = i / (kColumns / 4) / kHeads;
    copy_async16(&tile.v[t][h][c * 4], a.vc + ((first + t) * hv + head + h * hk) * kD + column + c * 4);
  }
  for (int i = threadIdx.x; i < count * kHeads; i += kWarps * 32) {
    copy_async8(&tile.gb[i / kHeads][i % kHeads],
                a.gb + ((first + i / kHeads) * hv + head + i % kHeads * hk) * 2);
  }
  for (int i = threadIdx.x; i < count; i += kWarps * 32) {
    copy_async4(&tile.kq[i], a.kq + (first + i) * hk + key_head);
  }
}

__device__ inline void load_part(const float* row, float* v) {
#pragma unroll
  for (int i = 0; i < kPart / 4; ++i) {
    const float4 x = reinterpret_cast<const float4*>(row)[i];
    v[4 * i] = x.x, v[4 * i + 1] = x.y, v[4 * i + 2] = x.z, v[4 * i + 3] = x.w;
  }
}

// blockIdx.x: columns of a head; blockIdx.y: first value head; its key head is head % hk.
template <int kHeads>
__global__ void __launch_bounds__(kWarps * 32, 1) gdn_scan_128(ops::GdnScanArgs a) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto* tiles = reinterpret_cast<Tile<kHeads>*>(shared);
  const int lane = lane_id(), part = lane % 8, own = warp_id() * 4 + lane / 8;
  const int column = static_cast<int>(blockIdx.x) * kColumns, head = static_cast<int>(blockIdx.y);
  const int hk = static_cast<int>(a.s.hk), hv = static_cast<int>(a.s.hv), key_head = head % hk;
  const int64_t T = a.s.T;

  float S[kHeads][kPart];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float* from = a.state + (int64_t{head + h * hk} * kD + part * kPart) * kD + column + own;
#pragma unroll
    for (int i = 0; i < kPart; ++i) S[h][i] = from[i * kD];
  }
  load_tile(tiles[0], a, 0, key_head, head, column);
  asm volatile("cp.async.commit_group;");
  int which = 0;
  // The value that this lane writes: head `part` of its column.
  float* out = a.o + (int64_t{head} + part * hk) * kD + column + own;
  for (int64_t first = 0; first < T; first += kTile, which ^= 1) {
    if (first + kTile < T) load_tile(tiles[which ^ 1], a, first + kTile, key_head, head, column);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    const Tile<kHeads>& tile = tiles[which];
    const int count = static_cast<int>(T - first < kTile ? T - first : kTile);
    float k[kPart], q[kPart];
    load_part(tile.k[0] + part * kPartStride, k);
    load_part(tile.q[0] + part * kPartStride, q);
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      const int next = t + 1 < kTile ? t + 1 : t;
      float k_next[kPart], q_next[kPart];
      load_part(tile.k[next] + part * kPartStride, k_next);
      load_part(tile.q[next] + part * kPartStride, q_next);
      float pk[kHeads], pq[kHeads], d[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) pk[h] = pq[h] = 0.0f;
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) pk[h] = __fmaf_rn(k[i], S[h][i], pk[h]);
      }
#pragma unroll
      for (int s = 1; s <= 4; s *= 2) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) pk[h] = pk[h] + __shfl_xor_sync(kAllLanes, pk[h], s);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) pq[h] = __fmaf_rn(q[i], S[h][i], pq[h]);
      }
      float o = 0.0f;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float2 gb = tile.gb[t][h];
        const float m = gb.x * pk[h];
        d[h] = gb.y * (tile.v[t][h][own] - m);
#pragma unroll
        for (int i = 0; i < kPart; ++i) S[h][i] = __fmaf_rn(k[i], d[h], gb.x * S[h][i]);
      }
#pragma unroll
      for (int s = 1; s <= 4; s *= 2) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) pq[h] = pq[h] + __shfl_xor_sync(kAllLanes, pq[h], s);
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float oh = __fmaf_rn(tile.kq[t], d[h], tile.gb[t][h].x * pq[h]);
        o = part == h ? oh : o;
      }
      if (part < kHeads) out[(first + t) * hv * kD] = o;
#pragma unroll
      for (int i = 0; i < kPart; ++i) k[i] = k_next[i], q[i] = q_next[i];
    }
    __syncthreads();
  }
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
  static const cudaError_t raised = cudaFuncSetAttribute(
      gdn_scan_128<kHeads>, cudaFuncAttributeMaxDynamicSharedMemorySize, 2 * sizeof(Tile<kHeads>));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(gdn_scan_128<kHeads>, dim3(kD / kColumns, heads), kWarps * 32, 2 * sizeof(Tile<kHeads>), a);
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
