// Attention over the kept tokens for heads of 64, 128 and 256: a block takes one query and one kv head, its
// warps four query heads each, so that a row of K and V is read once for all heads that share it.
//
// Scores: eight lanes share a key. Lane p of them holds lanes 4p .. 4p+3 of the contract's sum32, for two
// keys and four heads at a time; the folds of all those sums run together, every step handing over one half,
// which costs one shuffle per score. Values: a lane owns dh/32 neighbouring values of the output of its four
// heads and adds the tile's tokens in ascending order, p from shared memory. Few queries: each segment of 128
// tokens is a block of its own, and a second kernel merges them from the left.
#include "cuda/kernels.h"
#include "cuda/kernels/qsa_attention.cuh"

namespace argon::cuda {
namespace {

constexpr int kHeads = 4;  // of a warp
constexpr int kMaxWarps = 8;

struct HeadsParams {
  ops::QsaAttentionArgs a;
  float* partial;  // [T][nq][segments][dh + 2], or null: one block walks all segments
  int segments;
};

template <class Kv>
__device__ inline void load4(const Kv* p, float* v);
template <>
__device__ inline void load4<float>(const float* p, float* v) {
  const float4 x = __ldg(reinterpret_cast<const float4*>(p));
  v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
template <>
__device__ inline void load4<__half>(const __half* p, float* v) {
  const uint2 x = __ldg(reinterpret_cast<const uint2*>(p));
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&x.x));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&x.y));
  v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
}
template <int N, class Kv>
__device__ inline void load_values(const Kv* p, float* v) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) load4<Kv>(p + i, v + i);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = static_cast<float>(p[i]);
  }
}

__device__ inline float swap_add(float low, float high, bool is_high, int mask) {
  const float keep = is_high ? high : low, send = is_high ? low : high;
  return keep + __shfl_xor_sync(kAllLanes, send, mask);
}

// acc[h][v]: sum32 lanes 4p+v of head h. Folds all four; every lane of the eight ends with the sum of head
// (bit 2 of p)*2 + (bit 1 of p).
__device__ inline float fold_heads(const float (&acc)[kHeads][4], int p) {
  float x[2][4], y[4];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int v = 0; v < 4; ++v) x[h][v] = swap_add(acc[h][v], acc[h + 2][v], p & 4, 4);
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) y[v] = swap_add(x[0][v], x[1][v], p & 2, 2);
  // Lanes 4..7 are added to 0..3; the even lane keeps sums 0 and 1 of the four, the odd one 2 and 3.
  const float z0 = swap_add(y[0], y[2], p & 1, 1), z1 = swap_add(y[1], y[3], p & 1, 1);
  // z0: sum 0 (even) or 2 (odd); z1: sum 1 or 3. Next 0+2 and 1+3, then their sum.
  const float w = swap_add(z0, z1, p & 1, 1);
  return w + __shfl_xor_sync(kAllLanes, w, 1);
}

template <int kDh, class Kv>
__global__ void __launch_bounds__(32 * kMaxWarps) attention_heads(HeadsParams params) {
  constexpr int kOwn = kDh / 32;
  const ops::QsaAttentionArgs& a = params.a;
  extern __shared__ __align__(16) float shared[];  // q [heads of the block][dh], then per warp p [32][4]
  __shared__ int token[32];
  const int lane = lane_id(), p = lane % 8, group = lane / 8;
  const int64_t t = blockIdx.x;
  const int kv = static_cast<int>(blockIdx.y), per_kv = static_cast<int>(a.nq / a.nkv);
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int head0 = warp_id() * kHeads;
  float* q_rows = shared + head0 * kDh;
  float* probability = shared + warps * kHeads * kDh + warp_id() * 32 * kHeads;
  const float scale = inverse_root(kDh);
  const Kept tokens(a, t);
  const int size = static_cast<int>(tokens.size);
  int s0 = static_cast<int>(blockIdx.z) * static_cast<int>(ops::kAttentionSegment);
  if (s0 >= size) return;
  const int all_end =
      params.partial == nullptr ? size : min(size, s0 + static_cast<int>(ops::kAttentionSegment));

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int head = min(head0 + h, per_kv - 1);
    const float* q = a.q + (t * a.nq + kv * per_kv + head) * 2 * kDh;
    for (int i = lane; i < kDh; i += 32) q_rows[h * kDh + i] = q[i];
  }
  const int64_t stride = a.nkv * kDh;
  const Kv* K = static_cast<const Kv*>(a.k) + kv * kDh;
  const Kv* V = static_cast<const Kv*>(a.v) + kv * kDh;

  float total_o[kHeads][kOwn], total_m[kHeads], total_l[kHeads];
  bool first_segment = true;
  for (; s0 < all_end; s0 += ops::kAttentionSegment, first_segment = false) {
    const int stop = min(all_end, s0 + static_cast<int>(ops::kAttentionSegment));
    float o[kHeads][kOwn] = {}, m[kHeads], l[kHeads] = {};
    for (int first = s0; first < stop; first += 32) {
      const int count = min(32, stop - first);
      __syncthreads();
      if (threadIdx.x < 32) token[lane] = static_cast<int>(tokens.at(first + min(lane, count - 1)));
      __syncthreads();
      // Scores of 8 keys at a time: two for each group of lanes.
#pragma unroll 1
      for (int j = 0; j < count; j += 8) {
        const Kv* k0 = K + token[j + group] * stride + 4 * p;
        const Kv* k1 = K + token[j + 4 + group] * stride + 4 * p;
        float acc0[kHeads][4] = {}, acc1[kHeads][4] = {};
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          float x0[4], x1[4];
          load4<Kv>(k0 + 32 * i, x0);
          load4<Kv>(k1 + 32 * i, x1);
#pragma unroll
          for (int h = 0; h < kHeads; ++h) {
            const float4 q4 = *reinterpret_cast<const float4*>(q_rows + h * kDh + 32 * i + 4 * p);
            const float q[4] = {q4.x, q4.y, q4.z, q4.w};
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              acc0[h][v] = __fmaf_rn(q[v], x0[v], acc0[h][v]);
              acc1[h][v] = __fmaf_rn(q[v], x1[v], acc1[h][v]);
            }
          }
        }
        const int head = p / 4 * 2 + p / 2 % 2;
        const float s_0 = fold_heads(acc0, p) * scale, s_1 = fold_heads(acc1, p) * scale;
        if (p % 2 == 0) {
          probability[(j + group) * kHeads + head] = s_0;
          probability[(j + 4 + group) * kHeads + head] = s_1;
        }
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
        if (first == s0) m[h] = tile_max;
        const float m_new = fmaxf(m[h], tile_max), c = exp32(m[h] - m_new);
        e[h] = lane < count ? exp32(score[h] - m_new) : 0.0f;
        l[h] = __fmaf_rn(l[h], c, fold32(e[h]));
        m[h] = m_new;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) o[h][i] = o[h][i] * c;
      }
      __syncwarp();
      *reinterpret_cast<float4*>(probability + lane * kHeads) = make_float4(e[0], e[1], e[2], e[3]);
      __syncwarp();
#pragma unroll 4
      for (int j = 0; j < count; ++j) {
        float v[kOwn];
        load_values<kOwn, Kv>(V + token[j] * stride + lane * kOwn, v);
        const float4 p4 = *reinterpret_cast<const float4*>(probability + j * kHeads);
        const float pj[kHeads] = {p4.x, p4.y, p4.z, p4.w};
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
#pragma unroll
          for (int i = 0; i < kOwn; ++i) o[h][i] = __fmaf_rn(pj[h], v[i], o[h][i]);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (first_segment) {
        total_m[h] = m[h], total_l[h] = l[h];
#pragma unroll
        for (int i = 0; i < kOwn; ++i) total_o[h][i] = o[h][i];
        continue;
      }
      const float M = fmaxf(total_m[h], m[h]), ca = exp32(total_m[h] - M), cb = exp32(m[h] - M);
      total_m[h] = M;
      total_l[h] = __fmaf_rn(l[h], cb, total_l[h] * ca);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) total_o[h][i] = __fmaf_rn(o[h][i], cb, total_o[h][i] * ca);
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (head0 + h >= per_kv) break;
    const int64_t u = t * a.nq + kv * per_kv + head0 + h;
    if (params.partial != nullptr) {
      float* to = params.partial + (u * params.segments + blockIdx.z) * (kDh + 2);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) to[2 + lane * kOwn + i] = total_o[h][i];
      if (lane == 0) to[0] = total_m[h], to[1] = total_l[h];
      continue;
    }
    const float* gate = a.q + u * 2 * kDh + kDh;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int at = lane * kOwn + i;
      a.out[u * kDh + at] = __fdiv_rn(total_o[h][i], total_l[h]) * sigmoid32(gate[at]);
    }
  }
}

// A thread per value of a head's output.
__global__ void attention_merge(HeadsParams params) {
  const ops::QsaAttentionArgs& a = params.a;
  const int64_t u = blockIdx.x, t = u / a.nq;
  const int i = static_cast<int>(threadIdx.x), dh = static_cast<int>(a.dh);
  const Kept tokens(a, t);
  const float* part = params.partial + u * params.segments * (dh + 2);
  const float out = merge_segments(part, static_cast<int>(segments_of(tokens.size)), dh, i);
  a.out[u * dh + i] = out * sigmoid32(a.q[u * 2 * dh + dh + i]);
}

template <int kDh, class Kv>
void launch(Queue& queue, const HeadsParams& p) {
  const ops::QsaAttentionArgs& a = p.a;
  const int warps = static_cast<int>((a.nq / a.nkv + kHeads - 1) / kHeads);
  const size_t shared = static_cast<size_t>(warps) * kHeads * (kDh + 32) * sizeof(float);
  const dim3 grid(static_cast<unsigned>(a.T), static_cast<unsigned>(a.nkv),
                  static_cast<unsigned>(p.segments));
  queue.launch(attention_heads<kDh, Kv>, grid, warps * 32, shared, p);
}

}  // namespace

bool attention_heads(Queue& queue, const ops::QsaAttentionArgs& a) {
  if ((a.dh != 64 && a.dh != 128 && a.dh != 256) || a.nq / a.nkv > kHeads * kMaxWarps) return false;
  const int64_t most = most_kept(a);
  HeadsParams p{a, nullptr, 1};
  const bool split = a.T * a.nkv < queue.processors() && most > ops::kAttentionSegment;
  if (split) {
    p.segments = static_cast<int>(segments_of(most));
    p.partial = static_cast<float*>(
        queue.scratch(static_cast<size_t>(a.T * a.nq * p.segments * (a.dh + 2)) * sizeof(float)));
    if (p.partial == nullptr) return true;
  }
  const bool f16 = a.type == ops::KvType::kF16;
  if (a.dh == 64) {
    f16 ? launch<64, __half>(queue, p) : launch<64, float>(queue, p);
  } else if (a.dh == 128) {
    f16 ? launch<128, __half>(queue, p) : launch<128, float>(queue, p);
  } else {
    f16 ? launch<256, __half>(queue, p) : launch<256, float>(queue, p);
  }
  if (split) queue.launch(attention_merge, static_cast<unsigned>(a.T * a.nq), static_cast<int>(a.dh), 0, p);
  return true;
}

}  // namespace argon::cuda
