#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/qsa_select/qsa_select.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/sums.h"

namespace argon::ops {

void qsa_block_keys_ref(const QsaBlockKeysArgs& a, int64_t begin, int64_t end) {
  const float inv_r = 1.0f / static_cast<float>(a.r);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t b = a.first + u;
    float* key = a.keys + b * a.di;
    for (int64_t i = 0; i < a.di; ++i) {
      float sum = 0.0f;
      for (int64_t j = 0; j < a.r; ++j) {
        const int64_t at = (b * a.r + j) * a.di + i;
        const float k = a.type == KvType::kF32 ? static_cast<const float*>(a.raw)[at]
                                               : f16_to_f32(static_cast<const uint16_t*>(a.raw)[at]);
        sum = j == 0 ? k : sum + k;
      }
      key[i] = sum * inv_r;
    }
    rms_norm_ref({key, 0, 0, a.w, key, 0, 0, 1, 1, a.di, a.eps}, 0, 1);
    rope_ref({key, 0, 0, 1, 1, a.rope_table, a.rot, b * a.r, 0}, 0, 1);
  }
}

void select_blocks(const float* scores, int64_t n, int64_t budget, int32_t* kept) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  std::nth_element(order.begin(), order.begin() + budget, order.end(), better);
  std::sort(order.begin(), order.begin() + budget);
  std::copy_n(order.begin(), budget, kept);
}

void qsa_select_ref(const QsaSelectArgs& a, int64_t begin, int64_t end) {
  std::vector<float> scores;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t blocks = (a.position0 + t + 1) / a.r;
    if (blocks <= a.budget) {
      a.count[t] = kAllBlocks;
      continue;
    }
    scores.assign(static_cast<size_t>(blocks), 0.0f);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t h = 0; h < a.ni; ++h) {
        const float s = dot(a.iq + (t * a.ni + h) * a.di, a.keys + b * a.di, a.di);
        scores[static_cast<size_t>(b)] += s > 0.0f ? s : 0.0f;
      }
    }
    select_blocks(scores.data(), blocks, a.budget, a.kept + t * a.budget);
    a.count[t] = static_cast<int32_t>(a.budget);
  }
}

}  // namespace argon::ops
