// Attention and the indexer's scores in AVX2. The query heads that share a key head go together, those of
// several tokens where they are few: a tile of keys and values is widened once for all of them, and three are
// multiplied with it at a time.
#include <algorithm>

#include "cpu/kernels/dots_avx2.h"
#include "cpu/kernels/quantize_avx2.h"
#include "cpu/kernels/select_tokens.h"
#include "ops/qsa_attention/qsa_attention.h"
#include "ops/qsa_select/qsa_select.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int64_t kMaxHead = 1024;  // ModelConfig's bound on dh
constexpr int64_t kHeads = 12;      // query heads taken together, of one token or of several

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
  alignas(32) float o[kMaxHead];
};

// A tile's tokens and the query heads that look at them; heads of one token lie together.
struct TileWork {
  const float* q[kHeads];
  int64_t heads, dh, count;
  alignas(32) float rows[kAttentionTile * kMaxHead];
  alignas(32) float s[kHeads][kAttentionTile];
};

// Rows of the cache for the tile's tokens; up to a multiple of 8 the last one is repeated.
inline void widen_tile(const QsaAttentionArgs& a, const void* cache, const KeptTokens& tokens, int64_t first,
                       int64_t kv_head, TileWork& w) {
  for (int64_t j = 0; j < (w.count + 7) / 8 * 8; ++j) {
    widen_row(cache, a.type, tokens[first + std::min(j, w.count - 1)] * a.nkv + kv_head, a.dh,
              w.rows + j * a.dh);
  }
}

inline void tile_scores(TileWork& w) {
  const int64_t dh = w.dh;
  for (int64_t j = 0; j < w.count; j += 8) {
    const float* keys = w.rows + j * dh;
    int64_t h = 0;
    if (dh % 32 == 0 && dh < 512) {
      for (; h + 3 <= w.heads; h += 3) dots8<3>(w.q + h, keys, dh, dh, w.s[h] + j, kAttentionTile);
      for (; h + 2 <= w.heads; h += 2) dots8<2>(w.q + h, keys, dh, dh, w.s[h] + j, kAttentionTile);
      for (; h < w.heads; ++h) dots8<1>(w.q + h, keys, dh, dh, w.s[h] + j, kAttentionTile);
    } else {
      for (; h < w.heads; ++h) {
        for (int r = 0; r < 8; ++r) w.s[h][j + r] = vector_dot(w.q[h], keys + r * dh, dh);
      }
    }
  }
}

// Of a tile's scores. Which zero of two it is does not matter: it is only subtracted before an exp.
inline float largest(const float* s) {
  const __m256 eight = _mm256_max_ps(_mm256_max_ps(_mm256_load_ps(s), _mm256_load_ps(s + 8)),
                                     _mm256_max_ps(_mm256_load_ps(s + 16), _mm256_load_ps(s + 24)));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

// Scores to probabilities relative to the running maximum; o is scaled to it.
inline void soften(const TileWork& w, float scale, bool opens, float* s, Running& p) {
  for (int64_t j = w.count; j < kAttentionTile; ++j) s[j] = s[0];
  for (int64_t j = 0; j < kAttentionTile; ++j) s[j] = s[j] * scale;
  const float most = largest(s);
  if (opens) {
    p.M = most;
    p.l = 0.0f;
    for (int64_t i = 0; i < w.dh; ++i) p.o[i] = 0.0f;
  }
  const float M = p.M > most ? p.M : most, c = exp32(p.M - M);
  for (int64_t j = 0; j < kAttentionTile; ++j) s[j] = exp32(s[j] - M);
  for (int64_t j = w.count; j < kAttentionTile; ++j) s[j] = 0.0f;
  Lanes32 lanes;
  for (int v = 0; v < 4; ++v) lanes.v[v] = _mm256_load_ps(s + 8 * v);
  p.l = fma32(p.l, c, fold(lanes));
  p.M = M;
  for (int64_t i = 0; i < w.dh; ++i) p.o[i] = p.o[i] * c;
}

// o = fma(p_j, v_j, o) for NH heads and 32 values at a time.
template <int NH>
inline void add_values(const TileWork& w, int64_t head, Running* p) {
  int64_t i = 0;
  for (; i + 32 <= w.dh; i += 32) {
    __m256 o[NH][4];
#pragma GCC unroll 12
    for (int k = 0; k < NH * 4; ++k) o[k / 4][k % 4] = _mm256_loadu_ps(p[head + k / 4].o + i + 8 * (k % 4));
    for (int64_t j = 0; j < w.count; ++j) {
      const float* v = w.rows + j * w.dh + i;
      __m256 prob[NH];
#pragma GCC unroll 4
      for (int h = 0; h < NH; ++h) prob[h] = _mm256_broadcast_ss(w.s[head + h] + j);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m256 value = _mm256_loadu_ps(v + 8 * k);
#pragma GCC unroll 4
        for (int h = 0; h < NH; ++h) o[h][k] = _mm256_fmadd_ps(prob[h], value, o[h][k]);
      }
    }
#pragma GCC unroll 12
    for (int k = 0; k < NH * 4; ++k) _mm256_storeu_ps(p[head + k / 4].o + i + 8 * (k % 4), o[k / 4][k % 4]);
  }
  for (int64_t j = 0; j < w.count && i < w.dh; ++j) {
    for (int h = 0; h < NH; ++h) {
      float* o = p[head + h].o;
      for (int64_t k = i; k < w.dh; ++k) o[k] = fma32(w.s[head + h][j], w.rows[j * w.dh + k], o[k]);
    }
  }
}

inline void attend_tile(const QsaAttentionArgs& a, const KeptTokens& tokens, int64_t first, bool opens,
                        int64_t kv_head, TileWork& w, Running* p) {
  const float scale = reciprocal_root(static_cast<float>(a.dh));
  widen_tile(a, a.k, tokens, first, kv_head, w);
  tile_scores(w);
  for (int64_t h = 0; h < w.heads; ++h) soften(w, scale, opens, w.s[h], p[h]);
  widen_tile(a, a.v, tokens, first, kv_head, w);
  int64_t h = 0;
  for (; h + 3 <= w.heads; h += 3) add_values<3>(w, h, p);
  for (; h + 2 <= w.heads; h += 2) add_values<2>(w, h, p);
  for (; h < w.heads; ++h) add_values<1>(w, h, p);
}

inline void merge_segments(Running& a, const Running& b, int64_t dh) {
  const float M = a.M > b.M ? a.M : b.M, ca = exp32(a.M - M), cb = exp32(b.M - M);
  a.M = M;
  a.l = fma32(b.l, cb, a.l * ca);
  for (int64_t i = 0; i < dh; ++i) a.o[i] = fma32(b.o[i], cb, a.o[i] * ca);
}

// What heads have of their tokens: the segments merged so far, and the one at hand.
struct Sums {
  Running total[kHeads], segment[kHeads];
};

// The tiles from token `first` (a multiple of kAttentionTile) on to before `stop` for w.heads heads, the
// `head`th of sums on.
inline void attend(const QsaAttentionArgs& a, const KeptTokens& tokens, int64_t first, int64_t stop,
                   int64_t kv_head, TileWork& w, Sums& sums, int64_t head) {
  const int64_t n = tokens.size();
  for (int64_t i = first; i < stop; i += kAttentionTile) {
    Running* into = (i < kAttentionSegment ? sums.total : sums.segment) + head;
    w.count = std::min(kAttentionTile, n - i);
    attend_tile(a, tokens, i, i % kAttentionSegment == 0, kv_head, w, into);
    const int64_t next = i + w.count;
    if (i < kAttentionSegment || (next % kAttentionSegment != 0 && next != n)) continue;
    for (int64_t h = head; h < head + w.heads; ++h) merge_segments(sums.total[h], sums.segment[h], a.dh);
  }
}

// `heads` query heads from `head` on, of one key head, of `count` tokens from t on that all keep all tokens
// (or of one token). Whole tiles are the same for them; the last ones each token has alone.
inline void attend_tokens(const QsaAttentionArgs& a, int64_t t, int64_t count, int64_t head, int64_t heads,
                          TileWork& w, Sums& sums) {
  const int64_t kv_head = head / (a.nq / a.nkv);
  const auto query = [&](int64_t i) { return a.q + ((t + i / heads) * a.nq + head + i % heads) * 2 * a.dh; };
  int64_t common = 0;
  if (count > 1) {
    const KeptTokens tokens(a, t);
    common = (tokens.size() - 1) / kAttentionTile * kAttentionTile;
    w.heads = count * heads;
    for (int64_t i = 0; i < w.heads; ++i) w.q[i] = query(i);
    attend(a, tokens, 0, common, kv_head, w, sums, 0);
  }
  w.heads = heads;
  for (int64_t k = 0; k < count; ++k) {
    const KeptTokens tokens(a, t + k);
    for (int64_t h = 0; h < heads; ++h) w.q[h] = query(k * heads + h);
    attend(a, tokens, common, tokens.size(), kv_head, w, sums, k * heads);
    for (int64_t h = 0; h < heads; ++h) {
      const Running& of = sums.total[k * heads + h];
      float* out = a.out + ((t + k) * a.nq + head + h) * a.dh;
      const float *gate = w.q[h] + a.dh, l = of.l;
      for (int64_t i = 0; i < a.dh; ++i) out[i] = (of.o[i] / l) * sigmoid32(gate[i]);
    }
  }
}

}  // namespace ARGON_ISA_NS

void qsa_attention_avx2(const QsaAttentionArgs& a, int64_t begin, int64_t end) {
  Sums sums;
  TileWork w;
  w.dh = a.dh;
  const int64_t group = a.nq / a.nkv, most = kHeads / group;
  for (int64_t u = begin; u < end;) {
    const int64_t t = u / a.nq, head = u % a.nq;
    int64_t tokens = 0;
    while (head == 0 && tokens < std::min(most, (end - u) / a.nq) && a.count[t + tokens] == kAllBlocks)
      ++tokens;
    if (tokens > 1) {
      for (int64_t h = 0; h < a.nq; h += group) attend_tokens(a, t, tokens, h, group, w, sums);
      u += tokens * a.nq;
    } else {
      const int64_t heads = std::min({(head / group + 1) * group - head, end - u, kHeads});
      attend_tokens(a, t, 1, head, heads, w, sums);
      u += heads;
    }
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

inline namespace ARGON_ISA_NS {

// score = over heads in order, from +0, the sum of relu(dot), for 8 keys.
template <int NQ>
inline __m256 add_scores(const float* q, const float* keys, int64_t di, __m256 score) {
  alignas(32) float dots[NQ * 8];
  const float* heads[NQ];
  for (int i = 0; i < NQ; ++i) heads[i] = q + i * di;
  dots8<NQ>(heads, keys, di, di, dots, 8);
  for (int i = 0; i < NQ; ++i) {
    const __m256 s = _mm256_load_ps(dots + 8 * i);
    score = _mm256_add_ps(score, _mm256_and_ps(s, _mm256_cmp_ps(s, _mm256_setzero_ps(), _CMP_GT_OQ)));
  }
  return score;
}

}  // namespace ARGON_ISA_NS

void qsa_select_avx2(const QsaSelectArgs& a, int64_t begin, int64_t end) {
  const auto score = [&](const float* q, int64_t blocks, float* scores) {
    int64_t b = 0;
    for (; a.di % 32 == 0 && a.di < 512 && b + 8 <= blocks; b += 8) {
      __m256 sum = _mm256_setzero_ps();
      int64_t h = 0;
      for (; h + 2 <= a.ni; h += 2) sum = add_scores<2>(q + h * a.di, a.keys + b * a.di, a.di, sum);
      for (; h < a.ni; ++h) sum = add_scores<1>(q + h * a.di, a.keys + b * a.di, a.di, sum);
      _mm256_storeu_ps(scores + b, sum);
    }
    for (; b < blocks; ++b) {
      scores[b] = 0.0f;
      for (int64_t h = 0; h < a.ni; ++h) {
        const float s = vector_dot(q + h * a.di, a.keys + b * a.di, a.di);
        scores[b] += s > 0.0f ? s : 0.0f;
      }
    }
  };
  select_tokens(a, begin, end, 0, score, [&](float* scores, int64_t blocks, int32_t* kept) {
    select_blocks(scores, blocks, a.budget, kept);
  });
}

}  // namespace argon::ops
