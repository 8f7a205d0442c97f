// Attention of each query over exactly the tokens that the indexer kept, with an output gate.
//
// Kept tokens of the query at position p: if count = kAllBlocks, 0..p; else the tokens of the kept blocks
// (ascending) and then those after the last complete block, r*floor((p+1)/r) .. p. They are taken in
// ascending order, in tiles of 32, in segments of 4 tiles (128 tokens); the last tile and segment may be
// short.
//   score = dot(q, k)*(1/sqrt(dh));   dot is a sum32 (sum256 from 512 on).
//   In a segment: M = max of the first tile, l and o from +0. Each tile: M' = max(M, tile max); c =
//   exp(M-M');
//     p_j = exp(s_j-M'); l = fma(l, c, fold32 of p with +0 for absent lanes); o = o*c, then o = fma(p_j, v_j,
//     o), j ascending.
//   Segments merge left to right: M = max(Ma,Mb); l = fma(lb, exp(Mb-M), la*exp(Ma-M)); o likewise.
//   out = (o/l)*sigmoid(gate).
//
// Shapes  q [T][nq][2*dh]: per head dh of q (normed, rotated), then dh of gate; k, v [tokens][nkv][dh] of the
// cache's type;
//         kept [T][budget], count [T] as qsa_select writes them; out [T][nq][dh]. Query head i reads kv head
//         i/(nq/nkv).
// Units   T*nq, heads fastest.   1/sqrt(dh) is the f32 quotient with the root rounded first.
// Source  NUMERICS.md "Operations" (attention); online softmax: Milakov & Gimelshein 2018.
#pragma once

#include <cstdint>

#include "base/isa_namespace.h"
#include "ops/kv_store/kv_store.h"
#include "ops/matmul/matmul.h"
#include "ops/qsa_select/qsa_select.h"
#include "ops/route.h"

namespace argon::ops {

inline constexpr int64_t kAttentionTile = 32;
inline constexpr int64_t kAttentionSegment = 128;

struct QsaAttentionArgs {
  const float* q;
  const void *k, *v;
  KvType type;
  const int32_t *kept, *count;
  float* out;
  int64_t T, position0, nq, nkv, dh, r, budget;
  QuantizedRows out_q = {};  // of out, or empty
};

inline namespace ARGON_ISA_NS {

// The kept tokens of one query, by rank.
class KeptTokens {
 public:
  KeptTokens(const QsaAttentionArgs& a, int64_t t)
      : kept_(a.count[t] == kAllBlocks ? nullptr : a.kept + t * a.budget), r_(a.r) {
    const int64_t visible = a.position0 + t + 1;
    in_blocks_ = kept_ == nullptr ? visible : a.count[t] * a.r;
    tail_ = kept_ == nullptr ? 0 : visible - visible % a.r - in_blocks_;
    size_ = kept_ == nullptr ? visible : in_blocks_ + visible % a.r;
  }
  int64_t size() const { return size_; }
  int64_t operator[](int64_t i) const {
    if (kept_ == nullptr) return i;
    return i < in_blocks_ ? kept_[i / r_] * r_ + i % r_ : i + tail_;
  }

 private:
  const int32_t* kept_;
  int64_t r_, in_blocks_, tail_, size_;
};

}  // namespace ARGON_ISA_NS

inline int64_t units(const QsaAttentionArgs& a) { return a.T * a.nq; }
inline namespace ARGON_ISA_NS {
inline QuantizeArgs quantized(const QsaAttentionArgs& a) { return {a.out, a.out_q, a.T * a.nq, a.dh}; }
}  // namespace ARGON_ISA_NS
void qsa_attention_ref(const QsaAttentionArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
