// Attention over the kept tokens, the general way: a warp per query and head walks its segments; the running
// values are in shared memory.
#include "cuda/kernels.h"
#include "cuda/kernels/qsa_attention.cuh"

namespace argon::cuda {
namespace {

// Shared: per warp two rows of dh (segment, total).
__global__ void qsa_attention_any(ops::QsaAttentionArgs a) {
  extern __shared__ float shared[];
  const int64_t u = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (u >= a.T * a.nq) return;
  const int lane = lane_id();
  float* seg = shared + warp_id() * 2 * a.dh;
  float* total = seg + a.dh;
  const int64_t t = u / a.nq, kv = u % a.nq / (a.nq / a.nkv);
  const bool f16 = a.type == ops::KvType::kF16;
  const float* q = a.q + u * 2 * a.dh;
  const float scale = inverse_root(a.dh);
  const Kept tokens(a, t);
  float total_m = 0.0f, total_l = 0.0f;
  for (int64_t s0 = 0; s0 < tokens.size; s0 += ops::kAttentionSegment) {
    const int64_t stop =
        s0 + ops::kAttentionSegment < tokens.size ? s0 + ops::kAttentionSegment : tokens.size;
    float m = 0.0f, l = 0.0f;
    for (int64_t first = s0; first < stop; first += 32) {
      const int count = static_cast<int>(stop - first < 32 ? stop - first : 32);
      float score = __uint_as_float(0xff800000u);
      for (int j = 0; j < count; ++j) {
        const int64_t row = (tokens.at(first + j) * a.nkv + kv) * a.dh;
        const float s = scale * warp_sum(a.dh, [&](float acc, int64_t i) {
                          return __fmaf_rn(q[i], load_kv(a.k, f16, row + i), acc);
                        });
        if (lane == j) score = s;
      }
      float tile_max = score;
#pragma unroll
      for (int s = 16; s >= 1; s /= 2) tile_max = fmaxf(tile_max, __shfl_xor_sync(kAllLanes, tile_max, s));
      if (first == s0) m = tile_max;
      const float m_new = fmaxf(m, tile_max), c = exp32(m - m_new);
      const float p = lane < count ? exp32(score - m_new) : 0.0f;
      l = __fmaf_rn(l, c, fold32(p));
      m = m_new;
      for (int64_t i = lane; i < a.dh; i += 32) {
        float o = (first == s0 ? 0.0f : seg[i]) * c;
        seg[i] = o;
      }
      for (int j = 0; j < count; ++j) {
        const int64_t row = (tokens.at(first + j) * a.nkv + kv) * a.dh;
        const float pj = __shfl_sync(kAllLanes, p, j);
        for (int64_t i = lane; i < a.dh; i += 32) seg[i] = __fmaf_rn(pj, load_kv(a.v, f16, row + i), seg[i]);
      }
    }
    if (s0 == 0) {
      total_m = m, total_l = l;
      for (int64_t i = lane; i < a.dh; i += 32) total[i] = seg[i];
      continue;
    }
    const float M = fmaxf(total_m, m), ca = exp32(total_m - M), cb = exp32(m - M);
    total_m = M;
    total_l = __fmaf_rn(l, cb, total_l * ca);
    for (int64_t i = lane; i < a.dh; i += 32) total[i] = __fmaf_rn(seg[i], cb, total[i] * ca);
  }
  for (int64_t i = lane; i < a.dh; i += 32) {
    a.out[u * a.dh + i] = __fdiv_rn(total[i], total_l) * sigmoid32(q[a.dh + i]);
  }
}

}  // namespace

void run(Queue& queue, const ops::QsaAttentionArgs& a) {
  if (a.T == 0 || attention_tiles(queue, a) || attention_heads(queue, a)) return;
  queue.launch(qsa_attention_any, blocks_for(a.T * a.nq, 4), 128, static_cast<size_t>(a.dh) * 2 * 4 * 4, a);
}

}  // namespace argon::cuda
