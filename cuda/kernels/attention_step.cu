// Attention of one token. A segment of 128 kept tokens, one kv head and four of its query heads are a block
// of eight warps: scores of 16 keys a warp (each lane a lane of the contract's sum32), then a warp per head
// takes the segment's four tiles through the running maximum, then a thread per value adds the values in
// order. A second kernel merges the segments from the left.
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/qsa_attention.cuh"

namespace argon::cuda {
namespace {

constexpr int kHeads = 4, kWarps = 8, kThreads = 32 * kWarps;
constexpr int kSegment = static_cast<int>(ops::kAttentionSegment), kTiles = kSegment / 32;
constexpr int kKeys = kSegment / kWarps;  // of a warp
constexpr int kAhead = 16;                // values loaded before they are added

struct OneParams {
  ops::QsaAttentionArgs a;
  float* partial;  // [nq][segments][2 + dh]: maximum, sum, output
  int32_t segments;
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }

template <int kDh, class Kv>
__global__ void __launch_bounds__(kThreads) attention_one(OneParams p) {
  constexpr int kTerms = kDh / 32, kGroups = kThreads / kDh, kOwnHeads = kHeads / kGroups;
  static_assert(kKeys == 16 && kOwnHeads * kGroups == kHeads);
  __shared__ int token[kSegment];
  __shared__ float probability[kSegment * kHeads], factor[kTiles][kHeads];
  begin_early();
  const ops::QsaAttentionArgs& a = p.a;
  const Kept tokens(a, 0);
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id(), warp = warp_id();
  const int s0 = static_cast<int>(blockIdx.x) * kSegment, kv = static_cast<int>(blockIdx.y);
  const int per_kv = static_cast<int>(a.nq / a.nkv), head0 = static_cast<int>(blockIdx.z) * kHeads;
  const int count = min(kSegment, static_cast<int>(tokens.size) - s0);
  if (count <= 0) return;
  const auto head = [&](int h) { return kv * per_kv + min(head0 + h, per_kv - 1); };
  const int64_t stride = a.nkv * kDh;
  const Kv* K = static_cast<const Kv*>(a.k) + kv * kDh;
  const Kv* V = static_cast<const Kv*>(a.v) + kv * kDh;
  float q[kHeads][kTerms];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int i = 0; i < kTerms; ++i) q[h][i] = a.q[int64_t{head(h)} * 2 * kDh + 32 * i + lane];
  }
  if (tid < kSegment) token[tid] = static_cast<int>(tokens.at(s0 + min(tid, count - 1)));
  __syncthreads();
  // The values will be wanted from memory while scores are computed.
  for (int i = tid; i < count * kDh * static_cast<int>(sizeof(Kv)) / 128; i += kThreads) {
    constexpr int kLines = kDh * static_cast<int>(sizeof(Kv)) / 128;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(V + token[i / kLines] * stride +
                                                  i % kLines * (128 / static_cast<int>(sizeof(Kv)))));
  }
  const float scale = inverse_root(kDh);
#pragma unroll 1
  for (int first = warp * kKeys; first < min(count, (warp + 1) * kKeys); first += 8) {
    float acc[8 * kHeads] = {};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const Kv* k = K + token[first + j] * stride + lane;
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        const float x = widen(k[32 * i]);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) acc[j * kHeads + h] = __fmaf_rn(q[h][i], x, acc[j * kHeads + h]);
      }
    }
    fold_many<8 * kHeads>(acc);
    probability[first * kHeads + lane] = acc[0] * scale;
  }
  __syncthreads();
  if (warp < kHeads) {
    const int h = warp;
    const float lowest = __uint_as_float(0xff800000u);
    float score[kTiles], most[kTiles], m = 0.0f, l = 0.0f;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      score[t] = 32 * t + lane < count ? probability[(32 * t + lane) * kHeads + h] : lowest;
      most[t] = score[t];
#pragma unroll
      for (int s = 16; s >= 1; s /= 2) most[t] = fmaxf(most[t], __shfl_xor_sync(kAllLanes, most[t], s));
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (32 * t < count) {
        if (t == 0) m = most[0];
        const float m_new = fmaxf(m, most[t]), c = exp32(m - m_new);
        const float e = 32 * t + lane < count ? exp32(score[t] - m_new) : 0.0f;
        l = __fmaf_rn(l, c, fold32(e));
        m = m_new;
        probability[(32 * t + lane) * kHeads + h] = e;
        if (lane == 0) factor[t][h] = c;
      }
    }
    if (lane == 0 && head0 + h < per_kv) {
      float* to = p.partial + (int64_t{head(h)} * p.segments + blockIdx.x) * (kDh + 2);
      to[0] = m, to[1] = l;
    }
  }
  __syncthreads();
  const int value = tid % kDh, own = tid / kDh * kOwnHeads;
  float o[kOwnHeads] = {};
  for (int first = 0; first < count; first += kAhead) {
    float v[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) v[j] = widen(V[token[first + j] * stride + value]);
    if (first % 32 == 0) {
#pragma unroll
      for (int h = 0; h < kOwnHeads; ++h) o[h] = o[h] * factor[first / 32][own + h];
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j < count) {
#pragma unroll
        for (int h = 0; h < kOwnHeads; ++h) {
          o[h] = __fmaf_rn(probability[(first + j) * kHeads + own + h], v[j], o[h]);
        }
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kOwnHeads; ++h) {
    if (head0 + own + h < per_kv) {
      p.partial[(int64_t{head(own + h)} * p.segments + blockIdx.x) * (kDh + 2) + 2 + value] = o[h];
    }
  }
}

// A block per head, a thread per value.
__global__ void merge_one(OneParams p) {
  begin_early();
  const ops::QsaAttentionArgs& a = p.a;
  const Kept tokens(a, 0);
  const int64_t u = blockIdx.x;
  const int i = static_cast<int>(threadIdx.x), dh = static_cast<int>(a.dh);
  const float gate = a.q[u * 2 * dh + dh + i];
  const float* part = p.partial + u * p.segments * (dh + 2);
  const float out = merge_segments(part, static_cast<int>(segments_of(tokens.size)), dh, i) * sigmoid32(gate);
  a.out[u * dh + i] = out;
  if (a.out_q.codes != nullptr) quantize32(out, a.out_q, (u * dh + i) / 32);
}

template <int kDh>
void launch(Queue& queue, const OneParams& p) {
  const ops::QsaAttentionArgs& a = p.a;
  const dim3 grid(static_cast<unsigned>(p.segments), static_cast<unsigned>(a.nkv),
                  blocks_for(a.nq / a.nkv, kHeads));
  queue.launch_early(a.type == ops::KvType::kF16 ? attention_one<kDh, __half> : attention_one<kDh, float>,
                     grid, kThreads, 0, p);
}

}  // namespace

bool attention_step(Queue& queue, const ops::QsaAttentionArgs& a) {
  if (a.T != 1 || (a.dh != 64 && a.dh != 128 && a.dh != 256)) return false;
  OneParams p{a, nullptr, static_cast<int32_t>(segments_of(most_kept(a)))};
  p.partial =
      static_cast<float*>(queue.scratch(static_cast<size_t>(a.nq * p.segments * (a.dh + 2)) * sizeof(float)));
  if (p.partial == nullptr) return true;
  if (a.dh == 64) launch<64>(queue, p);
  if (a.dh == 128) launch<128>(queue, p);
  if (a.dh == 256) launch<256>(queue, p);
  queue.launch_early(merge_one, static_cast<unsigned>(a.nq), static_cast<int>(a.dh), 0, p);
  return true;
}

}  // namespace argon::cuda
