#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/qsa_attention/qsa_attention.h"
#include "ops/sums.h"

namespace argon::ops {
namespace {

// Running softmax: maximum, sum and weighted values so far.
struct Partial {
  float M = 0.0f, l = 0.0f;
  std::vector<float> o;
};

// One row of dh values of a cache as float32.
void read_row(const void* cache, KvType type, int64_t row, int64_t dh, float* out) {
  for (int64_t i = 0; i < dh; ++i) {
    out[i] = type == KvType::kF32 ? static_cast<const float*>(cache)[row * dh + i]
                                  : f16_to_f32(static_cast<const uint16_t*>(cache)[row * dh + i]);
  }
}

// Tokens first .. first+count-1 (count <= 32) of the kept ones join the segment.
void add_tile(const QsaAttentionArgs& a, const KeptTokens& tokens, int64_t first, int64_t count,
              bool opens_segment, const float* q, int64_t kv_head, Partial& p) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(a.dh));
  std::vector<float> row(static_cast<size_t>(a.dh));
  float s[kAttentionTile];
  for (int64_t j = 0; j < count; ++j) {
    read_row(a.k, a.type, tokens[first + j] * a.nkv + kv_head, a.dh, row.data());
    s[j] = dot(q, row.data(), a.dh) * scale;
  }
  const float tile_max = *std::max_element(s, s + count);
  if (opens_segment) p = {tile_max, 0.0f, std::vector<float>(static_cast<size_t>(a.dh), 0.0f)};
  const float M = std::max(p.M, tile_max), c = exp32(p.M - M);
  float prob[kAttentionTile] = {}, lanes[kAttentionTile] = {};
  for (int64_t j = 0; j < count; ++j) lanes[j] = prob[j] = exp32(s[j] - M);
  p.l = fma32(p.l, c, fold32(lanes));
  p.M = M;
  for (float& o : p.o) o = o * c;
  for (int64_t j = 0; j < count; ++j) {
    read_row(a.v, a.type, tokens[first + j] * a.nkv + kv_head, a.dh, row.data());
    for (int64_t i = 0; i < a.dh; ++i) {
      p.o[static_cast<size_t>(i)] = fma32(prob[j], row[static_cast<size_t>(i)], p.o[static_cast<size_t>(i)]);
    }
  }
}

void merge(Partial& a, const Partial& b) {
  const float M = std::max(a.M, b.M), ca = exp32(a.M - M), cb = exp32(b.M - M);
  a.M = M;
  a.l = fma32(b.l, cb, a.l * ca);
  for (size_t i = 0; i < a.o.size(); ++i) a.o[i] = fma32(b.o[i], cb, a.o[i] * ca);
}

}  // namespace

void qsa_attention_ref(const QsaAttentionArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) {
    const int64_t t = u / a.nq, head = u % a.nq;
    const float* q = a.q + u * 2 * a.dh;
    const float* gate = q + a.dh;
    const KeptTokens tokens(a, t);
    Partial total, segment;
    for (int64_t s = 0; s < tokens.size(); s += kAttentionSegment) {
      const int64_t stop = std::min(s + kAttentionSegment, tokens.size());
      for (int64_t i = s; i < stop; i += kAttentionTile) {
        add_tile(a, tokens, i, std::min(kAttentionTile, stop - i), i == s, q, head / (a.nq / a.nkv), segment);
      }
      s == 0 ? static_cast<void>(total = segment) : merge(total, segment);
    }
    for (int64_t i = 0; i < a.dh; ++i) {
      a.out[u * a.dh + i] = (total.o[static_cast<size_t>(i)] / total.l) * sigmoid32(gate[i]);
    }
  }
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

}  // namespace argon::ops
