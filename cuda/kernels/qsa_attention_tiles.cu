// Attention of many queries over a cache of f16, heads of 256: a block takes one query and one kv head, its
// warps four query heads each. Of 32 tokens, V comes to shared memory while the scores are computed, and the
// next ones' K while values are added, so that four blocks have room on a processor.
//
// Scores: sixteen lanes share a key, each with two neighbouring lanes of the contract's sum32 and its part of
// the four queries in registers; a warp has 8 keys under way, whose 32 sums fold together, every step handing
// over one half. Values: a lane owns 8 neighbouring values of the output of its four heads.
//
// Bound: 2*256 fma per key and query head; about as many instructions again widen f16, fold and take exps.
#include "cuda/kernels.h"
#include "cuda/kernels/qsa_attention.cuh"

namespace argon::cuda {
namespace {

constexpr int kDh = 256, kOwn = kDh / 32;
constexpr int kHeads = 4;  // of a warp
constexpr int kKeys = 4;   // of sixteen lanes at a time
constexpr int kTile = 32;
constexpr int kMaxWarps = 3;
static_assert(kTile == ops::kAttentionTile);

struct Memory {
  __half k[kTile][kDh + 32];  // neighbouring rows differ by half of the banks
  __half v[kTile][kDh];
  float probability[kMaxWarps][kTile][kHeads];
  float total[kMaxWarps][kHeads][kOwn][32];  // outputs of the segments so far: registers are for the queries
};

__device__ inline void copy_async16(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}

__device__ inline float swap_add(float low, float high, bool is_high, int mask) {
  const float keep = is_high ? high : low, send = is_high ? low : high;
  return keep + __shfl_xor_sync(kAllLanes, send, mask);
}

// acc[key][head][r]: sum32 lane 2*l + r, l = lane % 16. A lane ends with the sum of key l / 4, head l % 4.
__device__ inline float fold_scores(const float (&acc)[kKeys][kHeads][2], int lane) {
  float x[2][kHeads][2], y[kHeads][2], z[2][2], w[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int k = 0; k < 2; ++k) x[k][h][r] = swap_add(acc[k][h][r], acc[k + 2][h][r], lane & 8, 8);
      y[h][r] = swap_add(x[0][h][r], x[1][h][r], lane & 4, 4);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) z[h][r] = swap_add(y[h][r], y[h + 2][r], lane & 2, 2);
    w[r] = swap_add(z[0][r], z[1][r], lane & 1, 1);
  }
  return w[0] + w[1];
}

__global__ void __launch_bounds__(96, 4) attention_rows(ops::QsaAttentionArgs a) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const int lane = lane_id(), half = lane / 16, l = lane % 16, warps = static_cast<int>(blockDim.x) / 32;
  float* probability = memory.probability[warp_id()][0];
  auto& total_o = memory.total[warp_id()];
  const int64_t t = blockIdx.x;
  const int kv = static_cast<int>(blockIdx.y), per_kv = static_cast<int>(a.nq / a.nkv);
  const int head0 = warp_id() * kHeads;
  const float scale = inverse_root(kDh);
  const Kept tokens(a, t);
  const int size = static_cast<int>(tokens.size), r = static_cast<int>(a.r);
  const int in_blocks = static_cast<int>(tokens.in_blocks), tail = static_cast<int>(tokens.tail);
  const int64_t stride = a.nkv * kDh;
  const auto* K = static_cast<const __half*>(a.k) + kv * kDh;
  const auto* V = static_cast<const __half*>(a.v) + kv * kDh;

  // The token of rank first + lane.
  const auto token_at = [&](int first) {
    const int i = min(first + lane, size - 1);
    if (tokens.blocks == nullptr) return i;
    return i < in_blocks ? tokens.blocks[i / r] * r + i % r : i + tail;
  };
  const auto fetch = [&](const __half* from, int token, __half* to, int row_length) {
    for (int row = warp_id(); row < kTile; row += warps) {
      copy_async16(to + row * row_length + lane * 8,
                   from + __shfl_sync(kAllLanes, token, row) * stride + lane * 8);
    }
    asm volatile("cp.async.commit_group;");
  };
  int token = token_at(0);
  fetch(K, token, memory.k[0], kDh + 32);

  float2 q[kHeads][kOwn];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float* from = a.q + (t * a.nq + kv * per_kv + min(head0 + h, per_kv - 1)) * 2 * kDh + 2 * l;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) q[h][i] = *reinterpret_cast<const float2*>(from + 32 * i);
  }

  float total_m[kHeads], total_l[kHeads];
  float o[kHeads][kOwn], m[kHeads], sum[kHeads];
  for (int first = 0; first < size; first += kTile) {
    const bool begins = first % ops::kAttentionSegment == 0;
    const int count = min(kTile, size - first);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    fetch(V, token, memory.v[0], kDh);
    token = token_at(first + kTile);
    const auto& keys = memory.k;
#pragma unroll 1
    for (int j = 0; j < count; j += 2 * kKeys) {
      float acc[kKeys][kHeads][2] = {};
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
          const float2 x =
              __half22float2(*reinterpret_cast<const __half2*>(&keys[j + half + 2 * k][32 * i + 2 * l]));
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            acc[k][h][0] = __fmaf_rn(q[h][i].x, x.x, acc[k][h][0]);
            acc[k][h][1] = __fmaf_rn(q[h][i].y, x.y, acc[k][h][1]);
          }
        }
      }
      probability[(j + half + l / 4 * 2) * kHeads + l % 4] = fold_scores(acc, lane) * scale;
    }
    __syncwarp();
    const float4 scores = *reinterpret_cast<const float4*>(probability + lane * kHeads);
    const float score[kHeads] = {scores.x, scores.y, scores.z, scores.w};
    float e[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float tile_max = lane < count ? score[h] : __uint_as_float(0xff800000u);
#pragma unroll
      for (int s = 16; s >= 1; s /= 2) tile_max = fmaxf(tile_max, __shfl_xor_sync(kAllLanes, tile_max, s));
      if (begins) {
        m[h] = tile_max, sum[h] = 0.0f;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) o[h][i] = 0.0f;
      }
      const float m_new = fmaxf(m[h], tile_max), c = exp32(m[h] - m_new);
      e[h] = lane < count ? exp32(score[h] - m_new) : 0.0f;
      sum[h] = __fmaf_rn(sum[h], c, fold32(e[h]));
      m[h] = m_new;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) o[h][i] = o[h][i] * c;
    }
    __syncwarp();
    *reinterpret_cast<float4*>(probability + lane * kHeads) = make_float4(e[0], e[1], e[2], e[3]);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    fetch(K, token, memory.k[0], kDh + 32);
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const float4 p4 = *reinterpret_cast<const float4*>(probability + j * kHeads);
      const float p[kHeads] = {p4.x, p4.y, p4.z, p4.w};
      const uint4 words = *reinterpret_cast<const uint4*>(&memory.v[j][lane * 8]);
      const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int i = 0; i < kOwn; i += 2) {
        const float2 v = __half22float2(*reinterpret_cast<const __half2*>(&word[i / 2]));
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          o[h][i] = __fmaf_rn(p[h], v.x, o[h][i]);
          o[h][i + 1] = __fmaf_rn(p[h], v.y, o[h][i + 1]);
        }
      }
    }
    if ((first + kTile) % ops::kAttentionSegment != 0 && first + kTile < size) continue;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (first < ops::kAttentionSegment) {
        total_m[h] = m[h], total_l[h] = sum[h];
#pragma unroll
        for (int i = 0; i < kOwn; ++i) total_o[h][i][lane] = o[h][i];
        continue;
      }
      const float M = fmaxf(total_m[h], m[h]), ca = exp32(total_m[h] - M), cb = exp32(m[h] - M);
      total_m[h] = M;
      total_l[h] = __fmaf_rn(sum[h], cb, total_l[h] * ca);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) total_o[h][i][lane] = __fmaf_rn(o[h][i], cb, total_o[h][i][lane] * ca);
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (head0 + h >= per_kv) break;
    const int64_t u = t * a.nq + kv * per_kv + head0 + h;
    const float* gate = a.q + u * 2 * kDh + kDh;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int at = lane * kOwn + i;
      a.out[u * kDh + at] = __fdiv_rn(total_o[h][i][lane], total_l[h]) * sigmoid32(gate[at]);
    }
  }
}

}  // namespace

bool attention_tiles(Queue& queue, const ops::QsaAttentionArgs& a) {
  const int warps = static_cast<int>((a.nq / a.nkv + kHeads - 1) / kHeads);
  if (a.dh != kDh || a.type != ops::KvType::kF16 || warps > kMaxWarps || a.T * a.nkv < queue.processors())
    return false;
  static const cudaError_t raised =
      cudaFuncSetAttribute(attention_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory));
  static_cast<void>(raised);  // a refusal shows when the launch fails
  queue.launch(attention_rows, dim3(static_cast<unsigned>(a.T), static_cast<unsigned>(a.nkv)), warps * 32,
               sizeof(Memory), a);
  return true;
}

}  // namespace argon::cuda
