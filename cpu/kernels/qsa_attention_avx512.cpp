// Route qsa_attention_avx512: attention of one token's query heads that share a key head, 16 values at a
// time. Keys are widened 16 rows at a time and values 64 columns at a time, so that what is multiplied lies
// in the first-level cache; the next tile's rows, which lie anywhere in the cache of keys and values, are
// fetched meanwhile.
#include <algorithm>

#include "cpu/kernels/folds_avx512.h"
#include "cpu/kernels/quantize_avx2.h"
#include "ops/qsa_attention/qsa_attention.h"

namespace argon::ops {

void qsa_attention_avx2(const QsaAttentionArgs& a, int64_t begin, int64_t end);

inline namespace ARGON_ISA_NS {

constexpr int64_t kMostHead = 512;  // values of a head: below, and a multiple of kSlice
constexpr int64_t kSlice = 64;      // values of a head that are added at a time
constexpr int64_t kHeads = 12;      // query heads taken together
constexpr int64_t kKeys = 16;       // keys multiplied at a time

// The kept tokens of one query, one after the other (ops/qsa_attention/qsa_attention.h).
class TokenWalk {
 public:
  TokenWalk(const QsaAttentionArgs& a, int64_t t) : r_(a.r), tail_((a.position0 + t + 1) / a.r * a.r) {
    if (a.count[t] == kAllBlocks) {
      tail_ = 0;
    } else {
      kept_ = a.kept + t * a.budget;
      end_ = kept_ + a.count[t];
    }
  }
  int64_t next() {
    if (kept_ == end_) return tail_++;
    const int64_t token = *kept_ * r_ + offset_;
    if (++offset_ == r_) ++kept_, offset_ = 0;
    return token;
  }

 private:
  const int32_t *kept_ = nullptr, *end_ = nullptr;
  int64_t r_, offset_ = 0, tail_;
};

// What heads have of a segment so far: lanes are heads.
struct Running {
  alignas(64) float M[16], l[16];
  alignas(64) float o[kHeads * kMostHead];
};

struct TileWork {
  const float* q;  // [heads], 2*dh apart
  int64_t heads, dh, count;
  const char *k[kAttentionTile], *v[kAttentionTile];            // rows of the tile
  const char *next_k[kAttentionTile], *next_v[kAttentionTile];  // and of the one after it
  alignas(64) float rows[std::max(kKeys * kMostHead, kAttentionTile* kSlice)];
  alignas(64) float lanes[3 * kKeys][16];
  alignas(64) float s[16][kAttentionTile];
};

inline Floats16 widen16(const char* row, KvType type, int64_t i) {
  if (type == KvType::kF32) return load16(reinterpret_cast<const float*>(row) + i);
  return load16_f16(reinterpret_cast<const uint8_t*>(row) + 2 * i);
}

template <int NH>
inline void head_scores(TileWork& w, int64_t h, int64_t j0, Floats16 scale) {
  for (int64_t r = 0; r < kKeys; r += 4) {
    const int64_t row = j0 + r + std::min<int64_t>(h / 3, 3);  // each row of the next tile once
    dot_lanes4<NH>(w.q + h * 2 * w.dh, 2 * w.dh, w.rows + r * w.dh, w.dh, w.dh, w.next_k[row], w.lanes + r);
  }
  for (int i = 0; i < NH; ++i) {
    const Floats16 s = fold_each(w.lanes + 16 * i, add16);
    store16(w.s[h + i] + j0, mul16(s, scale));
  }
}

// Scores of the tile's tokens; those after the last repeat others.
inline void tile_scores(const QsaAttentionArgs& a, TileWork& w) {
  const Floats16 scale = set16(1.0f / root32(static_cast<float>(a.dh)));
  for (int64_t j0 = 0; j0 < w.count; j0 += kKeys) {
    for (int64_t j = 0; j < kKeys; ++j) {
      const char* row = w.k[std::min(j0 + j, w.count - 1)];
      for (int64_t i = 0; i < w.dh; i += 16) store16(w.rows + j * w.dh + i, widen16(row, a.type, i));
    }
    int64_t h = 0;
    for (; h + 3 <= w.heads; h += 3) head_scores<3>(w, h, j0, scale);
    for (; h < w.heads; ++h) head_scores<1>(w, h, j0, scale);
  }
  if (w.count <= kKeys) {
    for (int64_t h = 0; h < w.heads; ++h) store16(w.s[h] + 16, load16(w.s[h]));
  }
}

// Scores to probabilities relative to the running maximum; returns what o must be multiplied with, by head.
inline Floats16 soften(TileWork& w, bool opens, Running& p) {
  float(*lanes)[16] = w.lanes;
  for (int64_t h = 0; h < w.heads; ++h) store16(lanes[h], max16(load16(w.s[h]), load16(w.s[h] + 16)));
  for (int64_t h = w.heads; h < 16; ++h) store16(lanes[h], zero16());
  const Floats16 most = fold_each(lanes, max16);
  alignas(64) float M[16], c[16];
  store16(M, opens ? most : max16(load16(p.M), most));
  for (int i = 0; i < 16; ++i) c[i] = exp32((opens ? M[i] : p.M[i]) - M[i]);
  for (int64_t h = 0; h < w.heads; ++h) {
    float* s = w.s[h];
    for (int64_t j = 0; j < kAttentionTile; ++j) s[j] = exp32(s[j] - M[h]);
    for (int64_t j = w.count; j < kAttentionTile; ++j) s[j] = 0.0f;
    store16(lanes[h], add16(load16(s), load16(s + 16)));
  }
  const Floats16 l = opens ? zero16() : load16(p.l);
  store16(p.l, fma16(l, load16(c), fold_each(lanes, add16)));
  store16(p.M, load16(M));
  return load16(c);
}

// o = fma(p_j, v_j, o*c) for NH heads and one slice, whose values lie in w.rows.
template <int NH>
inline void add_values(const TileWork& w, int64_t head, int64_t slice, const float* c, int64_t ahead,
                       float* o) {
  Floats16 acc[NH][4];
#pragma GCC unroll 6
  for (int h = 0; h < NH; ++h) {
    const Floats16 scale = set16(c[head + h]);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) acc[h][k] = mul16(load16(o + (head + h) * w.dh + slice + 16 * k), scale);
  }
  for (int64_t j = 0; j < w.count; ++j) {
    if (w.next_v[j] != nullptr) _mm_prefetch(w.next_v[j] + ahead, _MM_HINT_T0);
    Floats16 v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = load16(w.rows + j * kSlice + 16 * k);
#pragma GCC unroll 6
    for (int h = 0; h < NH; ++h) {
      const Floats16 prob = set16(w.s[head + h][j]);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) acc[h][k] = fma16(prob, v[k], acc[h][k]);
    }
  }
#pragma GCC unroll 24
  for (int i = 0; i < NH * 4; ++i)
    store16(o + (head + i / 4) * w.dh + slice + 16 * (i % 4), acc[i / 4][i % 4]);
}

inline void attend_tile(const QsaAttentionArgs& a, bool opens, TileWork& w, Running& p) {
  tile_scores(a, w);
  alignas(64) float c[16];
  store16(c, soften(w, opens, p));
  for (int64_t i = 0; opens && i < w.heads * w.dh; i += 16) store16(p.o + i, zero16());
  for (int64_t slice = 0; slice < w.dh; slice += kSlice) {
    for (int64_t j = 0; j < w.count; ++j) {
      for (int64_t i = 0; i < kSlice; i += 16)
        store16(w.rows + j * kSlice + i, widen16(w.v[j], a.type, slice + i));
    }
    int64_t h = 0;
    for (; h + 6 <= w.heads; h += 6) add_values<6>(w, h, slice, c, 2 * slice + (h > 0 ? 64 : 0), p.o);
    for (; h < w.heads; ++h) add_values<1>(w, h, slice, c, 2 * slice, p.o);
  }
}

inline void merge_segments(Running& a, const Running& b, int64_t heads, int64_t dh) {
  alignas(64) float M[16], ca[16], cb[16];
  store16(M, max16(load16(a.M), load16(b.M)));
  for (int i = 0; i < 16; ++i) ca[i] = exp32(a.M[i] - M[i]);
  for (int i = 0; i < 16; ++i) cb[i] = exp32(b.M[i] - M[i]);
  store16(a.M, load16(M));
  store16(a.l, fma16(load16(b.l), load16(cb), mul16(load16(a.l), load16(ca))));
  for (int64_t h = 0; h < heads; ++h) {
    const Floats16 fa = set16(ca[h]), fb = set16(cb[h]);
    for (int64_t i = h * dh; i < (h + 1) * dh; i += 16)
      store16(a.o + i, fma16(load16(b.o + i), fb, mul16(load16(a.o + i), fa)));
  }
}

}  // namespace ARGON_ISA_NS

void qsa_attention_avx512(const QsaAttentionArgs& a, int64_t begin, int64_t end) {
  if (a.dh % kSlice != 0 || a.dh >= kMostHead) return qsa_attention_avx2(a, begin, end);
  Running total, segment;
  TileWork w;
  const int64_t group = a.nq / a.nkv, size = a.type == KvType::kF32 ? 4 : 2;
  for (int64_t i = 0; i < 16; ++i) total.M[i] = segment.M[i] = total.l[i] = segment.l[i] = 0.0f;
  for (int64_t u = begin; u < end; u += w.heads) {
    const int64_t t = u / a.nq, head = u % a.nq, kv_head = head / group;
    w.q = a.q + u * 2 * a.dh;
    w.dh = a.dh;
    w.heads = std::min({(kv_head + 1) * group - head, end - u, kHeads});
    const int64_t n = KeptTokens(a, t).size();
    TokenWalk walk(a, t);
    const auto find_rows = [&](int64_t count) {
      for (int64_t j = 0; j < kAttentionTile; ++j) {
        const int64_t at = j < count ? (walk.next() * a.nkv + kv_head) * a.dh * size : 0;
        w.next_k[j] = j < count ? static_cast<const char*>(a.k) + at : nullptr;
        w.next_v[j] = j < count ? static_cast<const char*>(a.v) + at : nullptr;
      }
    };
    find_rows(std::min(kAttentionTile, n));
    for (int64_t i = 0; i < n; i += kAttentionTile) {
      const bool opens = i % kAttentionSegment == 0;
      Running& into = i < kAttentionSegment ? total : segment;
      w.count = std::min(kAttentionTile, n - i);
      std::copy_n(w.next_k, kAttentionTile, w.k);
      std::copy_n(w.next_v, kAttentionTile, w.v);
      find_rows(std::clamp<int64_t>(n - i - kAttentionTile, 0, kAttentionTile));
      attend_tile(a, opens, w, into);
      const bool closes = i % kAttentionSegment == kAttentionSegment - kAttentionTile || i + w.count == n;
      if (closes && i >= kAttentionSegment) merge_segments(total, segment, w.heads, a.dh);
    }
    for (int64_t h = 0; h < w.heads; ++h) {
      float* out = a.out + (u + h) * a.dh;
      const float *o = total.o + h * a.dh, *gate = w.q + h * 2 * a.dh + a.dh, l = total.l[h];
      for (int64_t i = 0; i < a.dh; ++i) out[i] = (o[i] / l) * sigmoid32(gate[i]);
    }
  }
  if (a.out_q.codes != nullptr) quantize_avx2(quantized(a), begin, end);
}

}  // namespace argon::ops
