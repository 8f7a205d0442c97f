// Attention and the indexer's scores in AVX2; f16 caches are widened by the processor's conversion as they
// are read.
#include "cpu/kernels/quantize_avx2.h"
#include "cpu/kernels/simd_avx2.h"
#include "ops/qsa_attention/qsa_attention.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxHead = 1024;  // ModelConfig's bound on dh

inline void widen_row(const void* cache, KvType type, int64_t row, int64_t n, float* out) {
  if (type == KvType::kF32) {
    const float* p = static_cast<const float*>(cache) + row * n;
    for (int64_t i = 0; i < n; ++i) out[i] = p[i];
    return;
  }
  const uint16_t* p = static_cast<const uint16_t*>(cache) + row * n;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i))));
  }
  for (; i < n; ++i) out[i] = f16_to_f32(p[i]);
}

struct Running {
  float M, l;
  float o[kMaxHead];
};

inline void attend_tile(const QsaAttentionArgs& a, const KeptTokens& tokens, int64_t first, int64_t count,
                        bool opens, const float* q, int64_t kv_head, Running& p) {
  const float scale = reciprocal_root(static_cast<float>(a.dh));
  alignas(32) float row[kMaxHead], s[kAttentionTile], prob[kAttentionTile];
  float tile_max = 0.0f;
  for (int64_t j = 0; j < count; ++j) {
    widen_row(a.k, a.type, tokens[first + j] * a.nkv + kv_head, a.dh, row);
    s[j] = vector_dot(q, row, a.dh) * scale;
    tile_max = j == 0 || s[j] > tile_max ? s[j] : tile_max;
  }
  if (opens) {
    p.M = tile_max;
    p.l = 0.0f;
    for (int64_t i = 0; i < a.dh; ++i) p.o[i] = 0.0f;
  }
  const float M = p.M > tile_max ? p.M : tile_max, c = exp32(p.M - M);
  for (int64_t j = 0; j < kAttentionTile; ++j) prob[j] = j < count ? exp32(s[j] - M) : 0.0f;
  Lanes32 lanes;
  for (int v = 0; v < 4; ++v) lanes.v[v] = _mm256_load_ps(prob + 8 * v);
  p.l = fma32(p.l, c, fold(lanes));
  p.M = M;
  for (int64_t i = 0; i < a.dh; ++i) p.o[i] = p.o[i] * c;
  for (int64_t j = 0; j < count; ++j) {
    widen_row(a.v, a.type, tokens[first + j] * a.nkv + kv_head, a.dh, row);
    for (int64_t i = 0; i < a.dh; ++i) p.o[i] = fma32(prob[j], row[i], p.o[i]);
  }
}

inline void merge_segments(Running& a, const Running& b, int64_t dh) {
  const float M = a.M > b.M ? a.M : b.M, ca = exp32(a.M - M), cb = exp32(b.M - M);
  a.M = M;
  a.l = fma32(b.l, cb, a.l * ca);
  for (int64_t i = 0; i < dh; ++i) a.o[i] = fma32(b.o[i], cb, a.o[i] * ca);
}

}  // namespace ARGON_ISA_NS

void qsa_attention_avx2(const QsaAttentionArgs& a, int64_t begin, int64_t end) {
  Running total, segment;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t t = u / a.nq, head = u % a.nq, kv_head = head / (a.nq / a.nkv);
    const float *q = a.q + u * 2 * a.dh, *gate = q + a.dh;
    const KeptTokens tokens(a, t);
    const int64_t n = tokens.size();
    for (int64_t s = 0; s < n; s += kAttentionSegment) {
      const int64_t stop = s + kAttentionSegment < n ? s + kAttentionSegment : n;
      Running& into = s == 0 ? total : segment;
      for (int64_t i = s; i < stop; i += kAttentionTile) {
        const int64_t count = stop - i < kAttentionTile ? stop - i : kAttentionTile;
        attend_tile(a, tokens, i, count, i == s, q, kv_head, into);
      }
      if (s > 0) merge_segments(total, segment, a.dh);
    }
    float* out = a.out + u * a.dh;
    for (int64_t i = 0; i < a.dh; ++i) out[i] = (total.o[i] / total.l) * sigmoid32(gate[i]);
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

}  // namespace argon::ops
