// The cases of cpu_bench: operations at the widths of the real model (H 2560, 4 streams, experts of 640, 48
// value heads of 128, 24 query heads of 256).
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "formats/test_rows.h"
#include "ops/backend.h"
#include "tests/harness/arena.h"

namespace argon::bench {

using testing::TestArena;

// make(arena, small): `small` keeps widths and makes few rows of W and tokens, for the parity check.
template <class Args>
struct Case {
  std::string name;
  int64_t rows;  // what pick_route is asked with
  double bytes, products;
  std::function<Args(TestArena&, bool small)> make;
};
template <class Args>
using Cases = std::vector<Case<Args>>;

inline size_t n(int64_t v) { return static_cast<size_t>(v); }

// Random rows, of which only 48 differ: what they cost to read does not depend on it.
inline ops::WeightMatrix weights(TestArena& a, WeightType type, int64_t rows, int64_t cols) {
  const std::vector<uint8_t> some = random_weight_rows(type, 48 * cols, 0.1f, a.rng());
  std::vector<uint8_t> all(n(rows) * weight_row_bytes(type, cols));
  for (size_t at = 0; at < all.size(); at += some.size())
    std::copy_n(some.begin(), std::min(some.size(), all.size() - at),
                all.begin() + static_cast<std::ptrdiff_t>(at));
  return {a.copy(all), type, rows, cols, weight_row_bytes(type, cols)};
}

inline ops::QuantizedRows quantized(TestArena& a, const float* x, int64_t T, int64_t K) {
  ops::QuantizedRows q;
  q.codes = a.output<int8_t>(n(T * K));
  q.d = a.output<float>(n(T * K / 32));
  q.sums = a.output<int16_t>(n(T * K / 16));
  ops::quantize_ref({.x = x, .q = q, .T = T, .K = K}, 0, T);
  return q;
}

inline std::vector<WeightType> bench_types() {
  using enum WeightType;
  return {kQ8_0,  kQ4_0, kQ4_K, kQ5_K,    kQ6_K,  kIQ4_NL, kIQ4_XS, kIQ3_S, kIQ2_XXS, kQ2_0,
          kMXFP4, kQ3_K, kQ2_K, kIQ3_XXS, kIQ1_S, kIQ1_M,  kIQ2_XS, kIQ2_S, kNVFP4,   kF32};
}

inline Case<ops::MatmulArgs> matmul_case(const std::string& what, WeightType type, int64_t M, int64_t K,
                                         int64_t T) {
  const double row = static_cast<double>(weight_row_bytes(type, K));
  return {what + " " + std::string(weight_type_name(type)) + " K " + std::to_string(K), T,
          static_cast<double>(M) * row, static_cast<double>(M * K * T), [=](TestArena& a, bool small) {
            const int64_t rows = small ? 40 : M, tokens = small ? std::min<int64_t>(T, 9) : T;
            ops::MatmulArgs m{};
            m.w = weights(a, type, rows, K);
            float* x = a.uniform(n(tokens * K), -1.0f, 1.0f);
            m.x = x;
            m.q = quantized(a, x, tokens, K);
            m.y = a.output<float>(n(tokens * rows));
            m.T = tokens;
            m.ldy = rows;
            return m;
          }};
}

// Writing: one token, weights of 96 MB, which no cache holds.
inline Cases<ops::MatmulArgs> step_matmuls() {
  Cases<ops::MatmulArgs> cases;
  const auto add = [&](WeightType type, int64_t K) {
    const auto rows = static_cast<int64_t>((size_t{96} << 20) / weight_row_bytes(type, K));
    cases.push_back(matmul_case("step", type, rows, K, 1));
  };
  for (WeightType type : bench_types()) add(type, 2560);
  for (int64_t K : {320, 640, 6144, 10240}) add(WeightType::kQ8_0, K);
  add(WeightType::kQ4_0, 640);
  return cases;
}

// Reading: 512 tokens.
inline Cases<ops::MatmulArgs> prompt_matmuls() {
  Cases<ops::MatmulArgs> cases;
  for (WeightType type : bench_types()) cases.push_back(matmul_case("prompt", type, 256, 2560, 512));
  for (int64_t K : {320, 640, 6144, 10240})
    cases.push_back(matmul_case("prompt", WeightType::kQ8_0, 256, K, 512));
  return cases;
}

// Experts: 32 of them with 10 tokens each (512 tokens of 512 experts, 10 chosen), or 10 with one token.
inline Cases<ops::MatmulGroupedArgs> grouped_matmuls() {
  Cases<ops::MatmulGroupedArgs> cases;
  for (WeightType type : bench_types()) {
    if (type == WeightType::kF32) continue;
    for (int64_t each : {10, 1}) {
      const int64_t K = 2560, M = 640, E = each == 1 ? 10 : 32;
      cases.push_back({"experts " + std::string(weight_type_name(type)) + " x " + std::to_string(each),
                       E * each, static_cast<double>(n(E * M) * weight_row_bytes(type, K)),
                       static_cast<double>(E * M * K * each), [=](TestArena& a, bool small) {
                         const int64_t experts = small ? 3 : E, rows = small ? 40 : M, S = experts * each;
                         ops::MatmulGroupedArgs m{};
                         m.w.first = weights(a, type, experts * rows, K);
                         m.w.first.rows = rows;
                         m.w.experts = experts;
                         m.w.expert_bytes = n(rows) * m.w.first.row_bytes;
                         float* x = a.uniform(n(S * K), -1.0f, 1.0f);
                         m.x = x;
                         m.q = quantized(a, x, S, K);
                         std::vector<int32_t> begin(n(experts + 1)), row(n(S));
                         for (size_t e = 0; e < begin.size(); ++e)
                           begin[e] = static_cast<int32_t>(e * n(each));
                         for (size_t s = 0; s < row.size(); ++s)
                           row[s] = static_cast<int32_t>(row.size() - 1 - s);
                         m.expert_begin = a.copy(begin);
                         m.slot_row = a.copy(row);
                         m.y = a.output<float>(n(S * rows));
                         m.S = S;
                         return m;
                       }});
    }
  }
  return cases;
}

inline Cases<ops::QuantizeArgs> quantize_benches() {
  Cases<ops::QuantizeArgs> cases;
  for (int64_t T : {1, 512}) {
    const int64_t K = 10240;
    cases.push_back({"quantize T " + std::to_string(T), T, static_cast<double>(T * K * 4), 0,
                     [=](TestArena& a, bool small) {
                       const int64_t tokens = small ? std::min<int64_t>(T, 3) : T;
                       ops::QuantizeArgs q{};
                       q.x = a.uniform(n(tokens * K), -1.0f, 1.0f);
                       q.q.codes = a.output<int8_t>(n(tokens * K));
                       q.q.d = a.output<float>(n(tokens * K / 32));
                       q.q.sums = a.output<int16_t>(n(tokens * K / 16));
                       q.T = tokens;
                       q.K = K;
                       return q;
                     }});
  }
  return cases;
}

inline ops::GdnShape gdn_shape(int64_t T, bool small) {
  return {small ? std::min<int64_t>(T, 5) : T, 16, 48, 128};
}

inline Cases<ops::GdnPreArgs> gdn_pre_benches() {
  Cases<ops::GdnPreArgs> cases;
  for (int64_t T : {1, 512}) {
    cases.push_back({"gdn_pre T " + std::to_string(T), T, static_cast<double>(T * 80 * 128 * 8), 0,
                     [=](TestArena& a, bool small) {
                       const ops::GdnShape s = gdn_shape(T, small);
                       const int64_t ch = ops::channels(s);
                       ops::GdnPreArgs g{};
                       g.s = s;
                       g.qkv = a.uniform(n(s.T * ch), -1.0f, 1.0f);
                       g.alpha = a.uniform(n(s.T * s.hv), -1.0f, 1.0f);
                       g.beta = a.uniform(n(s.T * s.hv), -1.0f, 1.0f);
                       g.conv_w = a.uniform(n(ch * ops::kGdnConvTaps), -1.0f, 1.0f);
                       g.a = a.uniform(n(s.hv), -4.0f, 0.0f);
                       g.dt = a.uniform(n(s.hv), -1.0f, 1.0f);
                       g.history = a.uniform(n((ops::kGdnConvTaps - 1) * ch), -1.0f, 1.0f);
                       g.qn = a.output<float>(n(s.T * s.hk * s.D));
                       g.kn = a.output<float>(n(s.T * s.hk * s.D));
                       g.vc = a.output<float>(n(s.T * s.hv * s.D));
                       g.gb = a.output<float>(n(s.T * s.hv * 2));
                       g.kq = a.output<float>(n(s.T * s.hk));
                       g.eps = 1e-6f;
                       return g;
                     }});
  }
  return cases;
}

// Four products per element of the state: k.S, q.S, decay*S and k*d.
inline Cases<ops::GdnScanArgs> gdn_scan_benches() {
  Cases<ops::GdnScanArgs> cases;
  for (int64_t T : {1, 512}) {
    cases.push_back({"gdn_scan T " + std::to_string(T), T, T == 1 ? 48.0 * 128 * 128 * 8 : 0,
                     static_cast<double>(T) * 48 * 128 * 128 * 4, [=](TestArena& a, bool small) {
                       const ops::GdnShape s = gdn_shape(T, small);
                       ops::GdnScanArgs g{};
                       g.s = s;
                       g.qn = a.uniform(n(s.T * s.hk * s.D), -0.01f, 0.01f);
                       g.kn = a.uniform(n(s.T * s.hk * s.D), -0.1f, 0.1f);
                       g.vc = a.uniform(n(s.T * s.hv * s.D), -1.0f, 1.0f);
                       g.gb = a.uniform(n(s.T * s.hv * 2), 0.0f, 1.0f);
                       g.kq = a.uniform(n(s.T * s.hk), -0.1f, 0.1f);
                       g.state = a.uniform(n(s.hv * s.D * s.D), -1.0f, 1.0f);
                       g.o = a.output<float>(n(s.T * s.hv * s.D));
                       return g;
                     }});
  }
  return cases;
}

inline Cases<ops::GdnPostArgs> gdn_post_benches() {
  const int64_t T = 512;
  return {{"gdn_post T 512", T, static_cast<double>(T * 48 * 128 * 12), 0, [=](TestArena& a, bool small) {
             const ops::GdnShape s = gdn_shape(T, small);
             const size_t count = n(s.T * s.hv * s.D);
             ops::GdnPostArgs g{};
             g.s = s;
             g.o = a.uniform(count, -1.0f, 1.0f);
             g.z = a.uniform(count, -1.0f, 1.0f);
             g.norm_w = a.uniform(n(s.D), -1.0f, 1.0f);
             g.y = a.output<float>(count);
             g.eps = 1e-6f;
             return g;
           }}};
}

// Two products per cached value and query head. From token 2048 on, a query keeps 512 blocks of 4 tokens.
inline Cases<ops::QsaAttentionArgs> attention_benches() {
  Cases<ops::QsaAttentionArgs> cases;
  struct Size {
    int64_t T, position0;
  };
  for (const Size& s : {Size{128, 0}, Size{128, 1024}, Size{64, 8000}, Size{1, 512}, Size{1, 8000}}) {
    double products = 0;
    for (int64_t t = 0; t < s.T; ++t)
      products += static_cast<double>(std::min<int64_t>(s.position0 + t + 1, 2050)) * 24 * 256 * 2;
    cases.push_back({"attention T " + std::to_string(s.T) + " at " + std::to_string(s.position0), s.T, 0,
                     products, [=](TestArena& a, bool small) {
                       const int64_t T = small ? std::min<int64_t>(s.T, 2) : s.T, tokens = s.position0 + T,
                                     budget = 512, r = 4;
                       const auto cache = [&] {
                         const float* values = a.uniform(n(tokens * 512), -1.0f, 1.0f);
                         std::vector<uint16_t> halves(n(tokens * 512));
                         for (size_t i = 0; i < halves.size(); ++i) halves[i] = f32_to_f16(values[i]);
                         return a.copy(halves);
                       };
                       std::vector<int32_t> kept(n(T * budget)), count(n(T));
                       for (int64_t t = 0; t < T; ++t) {
                         const int64_t blocks = (s.position0 + t + 1) / r;
                         count[n(t)] = blocks > budget ? static_cast<int32_t>(budget) : ops::kAllBlocks;
                         for (int64_t i = 0; i < budget; ++i)
                           kept[n(t * budget + i)] =
                               static_cast<int32_t>(i * std::max(blocks, budget) / budget);
                       }
                       ops::QsaAttentionArgs q{};
                       q.q = a.uniform(n(T * 24 * 512), -1.0f, 1.0f);
                       q.k = cache();
                       q.v = cache();
                       q.type = ops::KvType::kF16;
                       q.kept = a.copy(kept);
                       q.count = a.copy(count);
                       q.out = a.output<float>(n(T * 24 * 256));
                       q.T = T;
                       q.position0 = s.position0;
                       q.nq = 24;
                       q.nkv = 2;
                       q.dh = 256;
                       q.r = r;
                       q.budget = budget;
                       return q;
                     }});
  }
  return cases;
}

inline Cases<ops::QsaSelectArgs> select_benches() {
  Cases<ops::QsaSelectArgs> cases;
  for (int64_t T : {1, 64}) {
    const int64_t position0 = 8000;
    cases.push_back({"select T " + std::to_string(T) + " at 8000", T, 0, static_cast<double>(T * 2000 * 512),
                     [=](TestArena& a, bool small) {
                       const int64_t tokens = small ? std::min<int64_t>(T, 2) : T;
                       ops::QsaSelectArgs q{};
                       q.iq = a.uniform(n(tokens * 512), -1.0f, 1.0f);
                       q.keys = a.uniform(n((position0 + tokens) / 4 * 128), -1.0f, 1.0f);
                       q.kept = a.output<int32_t>(n(tokens * 512));
                       q.count = a.output<int32_t>(n(tokens));
                       q.T = tokens;
                       q.position0 = position0;
                       q.ni = 4;
                       q.di = 128;
                       q.r = 4;
                       q.budget = 512;
                       return q;
                     }});
  }
  return cases;
}

inline Cases<ops::GrNormArgs> gr_norm_benches() {
  Cases<ops::GrNormArgs> cases;
  for (int64_t T : {1, 512}) {
    cases.push_back({"gr_norm T " + std::to_string(T), T, static_cast<double>(T * 10240 * 12), 0,
                     [=](TestArena& a, bool small) {
                       const int64_t tokens = small ? std::min<int64_t>(T, 3) : T;
                       ops::GrNormArgs g{};
                       g.x = a.uniform(n(tokens * 10240), -1.0f, 1.0f);
                       g.w = a.uniform(10240, -1.0f, 1.0f);
                       g.b = a.uniform(n(tokens * 2560), -1e-3f, 1e-3f);
                       g.inj = a.uniform(n(tokens * 4), -1.0f, 1.0f);
                       g.n = a.output<float>(n(tokens * 10240));
                       g.T = tokens;
                       g.C = 4;
                       g.H = 2560;
                       g.eps = 1e-6f;
                       return g;
                     }});
  }
  return cases;
}

inline Cases<ops::GrMixArgs> gr_mix_benches() {
  Cases<ops::GrMixArgs> cases;
  for (int64_t T : {1, 512}) {
    cases.push_back({"gr_mix T " + std::to_string(T), T, static_cast<double>(T * 10240 * 8), 0,
                     [=](TestArena& a, bool small) {
                       const int64_t tokens = small ? std::min<int64_t>(T, 3) : T;
                       ops::GrMixArgs g{};
                       g.up = a.uniform(n(tokens * 10240), -1.0f, 1.0f);
                       g.n = a.uniform(n(tokens * 10240), -1.0f, 1.0f);
                       g.h = a.output<float>(n(tokens * 2560));
                       g.T = tokens;
                       g.C = 4;
                       g.H = 2560;
                       return g;
                     }});
  }
  return cases;
}

inline Cases<ops::MoeCombineArgs> combine_benches() {
  const int64_t T = 512;
  return {{"moe_combine T 512", T, static_cast<double>(T * 2560 * 4 * 12), 0, [=](TestArena& a, bool small) {
             const int64_t tokens = small ? 3 : T;
             std::vector<int32_t> slot(n(tokens * 10));
             for (size_t i = 0; i < slot.size(); ++i) slot[i] = static_cast<int32_t>(slot.size() - 1 - i);
             ops::MoeCombineArgs m{};
             m.y = a.uniform(n(tokens * 10 * 2560), -1.0f, 1.0f);
             m.slot = a.copy(slot);
             m.w = a.uniform(n(tokens * 10), 0.0f, 1.0f);
             m.shared = a.uniform(n(tokens * 2560), -1.0f, 1.0f);
             m.sg = a.uniform(n(tokens), 0.0f, 1.0f);
             m.out = a.output<float>(n(tokens * 2560));
             m.T = tokens;
             m.K = 10;
             m.H = 2560;
             return m;
           }}};
}

}  // namespace argon::bench
