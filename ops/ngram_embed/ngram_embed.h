// The hashed n-gram module (MODEL.md "PLE"), round the projections of the looked-up rows e.
//
//   ngram_hash  window of a token = it and its n-1 predecessors; a predecessor equal to `eos` replaces itself
//   and all before
//               it by eos; the current token never cuts. For order m in 2..n: mixed = (t0*M[0]) xor ... xor
//               (t_{m-1}*M[m-1]) in uint64; for each of the G heads of that order: row = mixed mod size[head]
//               + offset[head].
//   ngram_gate  key_c, query_c = rmsnorm per stream (own weights) of W_key e and x; s = dot(key_c,
//   query_c)*(1/sqrt(H));
//               a = s == 0 ? 0.5 : sigmoid(copysign(sqrt(max(|s|, 1e-6)), s)); v_c = a*value; nv_c =
//               rmsnorm(v_c)*w.
//   ngram_conv  conv over time of nv, `taps` taps, dilation n: oldest tap product, then fma to the newest;
//   silu; x = x + (v + conv).
//               window: the last (taps-1)*n columns of nv, oldest first; read and replaced; zero at the start
//               of a sequence.
//
// Shapes  tokens [n-1+T], predecessors first (eos before the start); rows [T][(n-1)*G]; key, x, v, nv
// [T][C][H]; value [T][H];
//         norm weights [C][H]; conv_w [C*H][taps]; window [(taps-1)*n][C*H].
// Units   hash: tokens; gate: T*C streams; conv: C*H channels in groups of kNgramChannels.   key is
// overwritten by its norm. Source  NUMERICS.md "Operations" (PLE).
#pragma once

#include <cstdint>

#include "ops/route.h"

namespace argon::ops {

inline constexpr int64_t kNgramChannels = 64;

struct NgramHashArgs {
  const int32_t* tokens;
  const uint64_t* multipliers;      // [n]
  const uint64_t *sizes, *offsets;  // [(n-1)*G]
  int32_t* rows;
  int64_t T, n, G;
  int32_t eos;
};

struct NgramGateArgs {
  float* key;
  const float *value, *x;
  const float *w_key, *w_query, *w_conv;
  float *v, *nv;
  int64_t T, C, H;
  float eps;
};

struct NgramConvArgs {
  const float *v, *nv, *conv_w;
  float *window, *x;
  int64_t T, channels, taps, n;
};

inline int64_t units(const NgramHashArgs& a) { return a.T; }
inline int64_t units(const NgramGateArgs& a) { return a.T * a.C; }
inline int64_t units(const NgramConvArgs& a) { return (a.channels + kNgramChannels - 1) / kNgramChannels; }
void ngram_hash_ref(const NgramHashArgs&, int64_t begin, int64_t end);
void ngram_gate_ref(const NgramGateArgs&, int64_t begin, int64_t end);
void ngram_conv_ref(const NgramConvArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
