#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/ngram_embed/ngram_embed.h"
#include "ops/sums.h"

namespace argon::ops {

void ngram_hash_ref(const NgramHashArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int32_t* now = a.tokens + t + a.n - 1;
    uint64_t mixed = static_cast<uint64_t>(now[0]) * a.multipliers[0];
    bool cut = false;
    for (int64_t m = 2; m <= a.n; ++m) {
      cut = cut || now[1 - m] == a.eos;
      mixed ^= static_cast<uint64_t>(cut ? a.eos : now[1 - m]) * a.multipliers[m - 1];
      for (int64_t g = (m - 2) * a.G; g < (m - 1) * a.G; ++g) {
        a.rows[t * (a.n - 1) * a.G + g] = static_cast<int32_t>(mixed % a.sizes[g] + a.offsets[g]);
      }
    }
  }
}

void ngram_gate_ref(const NgramGateArgs& a, int64_t begin, int64_t end) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(a.H));
  std::vector<float> query(static_cast<size_t>(a.H));
  for (int64_t u = begin; u < end; ++u) {
    const int64_t t = u / a.C, c = u % a.C;
    float* key = a.key + u * a.H;
    float* v = a.v + u * a.H;
    rms_norm_row(key, a.w_key + c * a.H, key, a.H, a.eps);
    rms_norm_row(a.x + u * a.H, a.w_query + c * a.H, query.data(), a.H, a.eps);
    const float s = dot(key, query.data(), a.H) * scale;
    const float gate =
        s == 0.0f ? 0.5f : sigmoid32(std::copysign(std::sqrt(std::max(std::fabs(s), 1e-6f)), s));
    for (int64_t i = 0; i < a.H; ++i) v[i] = gate * a.value[t * a.H + i];
    rms_norm_row(v, a.w_conv + c * a.H, a.nv + u * a.H, a.H, a.eps);
  }
}

void ngram_conv_ref(const NgramConvArgs& a, int64_t begin, int64_t end) {
  const int64_t columns = (a.taps - 1) * a.n;
  for (int64_t i = begin * kNgramChannels; i < std::min(end * kNgramChannels, a.channels); ++i) {
    for (int64_t t = 0; t < a.T; ++t) {
      float conv = 0.0f;
      for (int64_t tap = 0; tap < a.taps; ++tap) {
        const int64_t at = t - (a.taps - 1 - tap) * a.n;
        const float x = at >= 0 ? a.nv[at * a.channels + i] : a.window[(at + columns) * a.channels + i];
        conv = tap == 0 ? a.conv_w[i * a.taps] * x : fma32(a.conv_w[i * a.taps + tap], x, conv);
      }
      a.x[t * a.channels + i] = a.x[t * a.channels + i] + (a.v[t * a.channels + i] + silu32(conv));
    }
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = a.T - columns + j;
      a.window[j * a.channels + i] =
          at >= 0 ? a.nv[at * a.channels + i] : a.window[(at + columns) * a.channels + i];
    }
  }
}

}  // namespace argon::ops
