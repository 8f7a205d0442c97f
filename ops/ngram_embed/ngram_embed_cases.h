// Parity cases of the n-gram module: orders, cuts by the end-of-text id, gates round zero, passes shorter
// than the window.
#pragma once

#include "ops/ngram_embed/ngram_embed.h"
#include "tests/harness/parity_case.h"

namespace argon::ops {

inline testing::ParityCases<NgramHashArgs> ngram_hash_cases() {
  testing::ParityCases<NgramHashArgs> cases;
  for (int64_t n : {2, 3, 5}) {
    for (int64_t G : {1, 4, 8}) {
      cases.push_back(
          {"n " + std::to_string(n) + ", G " + std::to_string(G), 30, [=](testing::TestArena& a) {
             const int64_t T = 30, heads = (n - 1) * G;
             const int32_t* tokens = a.ints(static_cast<size_t>(T + n - 1), 0, 6);  // eos = 2 comes often
             std::vector<uint64_t> m(static_cast<size_t>(n)), sizes(static_cast<size_t>(heads)),
                 offsets(sizes.size());
             for (uint64_t& v : m) v = a.rng()() >> 13 | 1;
             for (size_t i = 0; i < sizes.size(); ++i) {
               sizes[i] = 1 + a.rng()() % 50000;
               offsets[i] = 50000 * i;
             }
             const uint64_t* md = a.copy(m);
             const uint64_t* sd = a.copy(sizes);
             const uint64_t* od = a.copy(offsets);
             return NgramHashArgs{tokens, md, sd, od, a.output<int32_t>(static_cast<size_t>(T * heads)),
                                  T,      n,  G,  2};
           }});
    }
  }
  return cases;
}

inline testing::ParityCases<NgramGateArgs> ngram_gate_cases() {
  testing::ParityCases<NgramGateArgs> cases;
  for (int64_t H : {128, 129, 256, 2560}) {
    for (const bool zero : {false, true}) {
      cases.push_back({"H " + std::to_string(H) + (zero ? ", zero" : ""), 3, [=](testing::TestArena& a) {
                         const int64_t T = 3, C = 4;
                         const auto n = [](int64_t v) { return static_cast<size_t>(v); };
                         float* key = a.floats(n(T * C * H));
                         for (int64_t i = 0; zero && i < C * H; ++i) key[i] = 0.0f;
                         const float* value = a.floats(n(T * H));
                         const float* x = a.floats(n(T * C * H));
                         const float* wk = a.floats(n(C * H));
                         const float* wq = a.floats(n(C * H));
                         const float* wc = a.floats(n(C * H));
                         float* v = a.output<float>(n(T * C * H));
                         return NgramGateArgs{key, value, x, wk,   wq, wc, v, a.output<float>(n(T * C * H)),
                                              T,   C,     H, 1e-6f};
                       }});
    }
  }
  return cases;
}

inline testing::ParityCases<NgramConvArgs> ngram_conv_cases() {
  testing::ParityCases<NgramConvArgs> cases;
  for (int64_t T : {1, 2, 8, 9, 10, 33}) {
    for (int64_t channels : {65, 512, 10240}) {
      cases.push_back({"T " + std::to_string(T) + ", channels " + std::to_string(channels), T,
                       [=](testing::TestArena& a) {
                         const int64_t taps = 4, dilation = 3;
                         const auto n = [](int64_t v) { return static_cast<size_t>(v); };
                         const float* v = a.floats(n(T * channels));
                         const float* nv = a.floats(n(T * channels));
                         const float* w = a.floats(n(channels * taps));
                         float* window = a.floats(n((taps - 1) * dilation * channels));
                         return NgramConvArgs{v, nv,       w,    window,  a.floats(n(T * channels)),
                                              T, channels, taps, dilation};
                       }});
    }
  }
  return cases;
}

}  // namespace argon::ops
