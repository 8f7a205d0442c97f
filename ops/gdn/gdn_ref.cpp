#include <cmath>

#include "ops/gdn/gdn.h"
#include "ops/sums.h"

namespace argon::ops {
namespace {

// u = silu(conv) of D channels from `channel` on, at token t. Columns before the pass come from the history.
void conv_silu(const GdnPreArgs& a, int64_t t, int64_t channel, float* u) {
  const int64_t ch = channels(a.s);
  for (int64_t i = 0; i < a.s.D; ++i) {
    const float* w = a.conv_w + (channel + i) * kGdnConvTaps;
    float conv = 0.0f;
    for (int64_t tap = 0; tap < kGdnConvTaps; ++tap) {
      const int64_t at = t - (kGdnConvTaps - 1) + tap;
      const float x =
          at >= 0 ? a.qkv[at * ch + channel + i] : a.history[(at + kGdnConvTaps - 1) * ch + channel + i];
      conv = tap == 0 ? w[0] * x : fma32(w[tap], x, conv);
    }
    u[i] = silu32(conv);
  }
}

// The last 3 columns of (history, qkv) become the history of D channels.
void keep_history(const GdnPreArgs& a, int64_t channel) {
  const int64_t ch = channels(a.s), keep = kGdnConvTaps - 1;
  for (int64_t j = 0; j < keep; ++j) {
    const int64_t at = a.s.T - keep + j;
    for (int64_t i = channel; i < channel + a.s.D; ++i) {
      a.history[j * ch + i] = at >= 0 ? a.qkv[at * ch + i] : a.history[(at + keep) * ch + i];
    }
  }
}

void pre_key_head(const GdnPreArgs& a, int64_t head) {
  const GdnShape& s = a.s;
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.D));
  for (int64_t t = 0; t < s.T; ++t) {
    float* q = a.qn + (t * s.hk + head) * s.D;
    float* k = a.kn + (t * s.hk + head) * s.D;
    conv_silu(a, t, head * s.D, q);
    conv_silu(a, t, (s.hk + head) * s.D, k);
    const float rq = 1.0f / std::sqrt(dot(q, q, s.D) + a.eps);
    const float rk = 1.0f / std::sqrt(dot(k, k, s.D) + a.eps);
    for (int64_t i = 0; i < s.D; ++i) {
      q[i] = (q[i] * rq) * scale;
      k[i] = k[i] * rk;
    }
    a.kq[t * s.hk + head] = dot_sum32(k, q, s.D);
  }
  keep_history(a, head * s.D);
  keep_history(a, (s.hk + head) * s.D);
}

void pre_value_head(const GdnPreArgs& a, int64_t head) {
  const GdnShape& s = a.s;
  const int64_t channel = (2 * s.hk + head) * s.D;
  for (int64_t t = 0; t < s.T; ++t) {
    conv_silu(a, t, channel, a.vc + (t * s.hv + head) * s.D);
    float* gb = a.gb + (t * s.hv + head) * 2;
    gb[0] = exp32(a.a[head] * softplus32(a.alpha[t * s.hv + head] + a.dt[head]));
    gb[1] = sigmoid32(a.beta[t * s.hv + head]);
  }
  keep_history(a, channel);
}

}  // namespace

void gdn_pre_ref(const GdnPreArgs& a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) u < a.s.hk ? pre_key_head(a, u) : pre_value_head(a, u - a.s.hk);
}

void gdn_scan_ref(const GdnScanArgs& a, int64_t begin, int64_t end) {
  const GdnShape& s = a.s;
  const int64_t groups = s.D / kGdnColumns, part = s.D / 8;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t j = u / groups, key_head = j % s.hk;
    for (int64_t t = 0; t < s.T; ++t) {
      const float* k = a.kn + (t * s.hk + key_head) * s.D;
      const float* q = a.qn + (t * s.hk + key_head) * s.D;
      const float decay = a.gb[(t * s.hv + j) * 2], beta = a.gb[(t * s.hv + j) * 2 + 1];
      const float kq = a.kq[t * s.hk + key_head];
      for (int64_t c = (u % groups) * kGdnColumns; c < (u % groups + 1) * kGdnColumns; ++c) {
        float* S = a.state + j * s.D * s.D + c;  // S[i*D]: key i, this value column
        float pk[8] = {}, pq[8] = {};
        for (int64_t i = 0; i < s.D; ++i) {
          pk[i / part] = fma32(k[i], S[i * s.D], pk[i / part]);
          pq[i / part] = fma32(q[i], S[i * s.D], pq[i / part]);
        }
        const float total_k = ((pk[0] + pk[1]) + (pk[2] + pk[3])) + ((pk[4] + pk[5]) + (pk[6] + pk[7]));
        const float total_q = ((pq[0] + pq[1]) + (pq[2] + pq[3])) + ((pq[4] + pq[5]) + (pq[6] + pq[7]));
        const float m = decay * total_k;
        const float d = beta * (a.vc[(t * s.hv + j) * s.D + c] - m);
        for (int64_t i = 0; i < s.D; ++i) S[i * s.D] = fma32(k[i], d, decay * S[i * s.D]);
        a.o[(t * s.hv + j) * s.D + c] = fma32(kq, d, decay * total_q);
      }
    }
  }
}

void gdn_post_ref(const GdnPostArgs& a, int64_t begin, int64_t end) {
  const GdnShape& s = a.s;
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t j = 0; j < s.hv; ++j) {
      const int64_t at = (t * s.hv + j) * s.D;
      const float* o = a.o + at;
      const float r = 1.0f / std::sqrt(dot(o, o, s.D) / static_cast<float>(s.D) + a.eps);
      for (int64_t i = 0; i < s.D; ++i) a.y[at + i] = ((o[i] * r) * a.norm_w[i]) * sigmoid32(a.z[at + i]);
    }
  }
  if (a.out_q.codes != nullptr) quantize_ref(quantized(a), begin, end);
}

}  // namespace argon::ops
