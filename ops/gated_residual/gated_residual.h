// The gated residual (hyper-connection) round a block: C residual streams x [T][C][H] are normed, mixed into
// the block's input h, and the block's output b is added back to each stream through a gate (MODEL.md "Gated
// residual").
//
//   gr_norm   with b: x_c = fma(2/(1+exp(-inj_c)), b, x_c) first; then n_c = (x_c*r_c)*w_c, r_c = 1/sqrt(ss/H
//   + eps),
//             ss by sum256 when H >= 512, else sum32.
//   gr_apply  the first half alone.
//   gr_gate   after the projections of n: lo = silu(down*(1/C)) and inj = inj*(1/C), both in place.
//   gr_mix    h = (over c in order, from +0: fma(sigmoid(up_c), n_c, acc))*(1/C).
// So inj reaches gr_norm and gr_apply already multiplied by 1/C: exactly that product.
//
// Shapes  x, n, up [T][C][H]; w [C][H]; b, h [T][H]; inj [T][C]; down [T][R].  1/C is the f32 quotient.
// Units   tokens, except gr_norm and gr_apply: streams (T*C).   gr_norm: n must not alias x.
// Source  NUMERICS.md "Operations"; hyper-connections: Zhu et al. 2024.
#pragma once

#include <cstdint>

#include "base/isa_namespace.h"
#include "ops/matmul/matmul.h"
#include "ops/route.h"

namespace argon::ops {

struct GrNormArgs {
  float* x;
  const float* w;
  const float* b;    // or null: norm only
  const float* inj;  // read when b is given
  float* n;
  int64_t T, C, H;
  float eps;
  QuantizedRows out_q = {};  // of n, or empty
};

struct GrApplyArgs {
  float* x;
  const float* b;
  const float* inj;
  int64_t T, C, H;
};

struct GrGateArgs {
  float* lo;   // [T][R]: W_down n in, lo out
  float* inj;  // [T][C] in place, or null (head mixer)
  int64_t T, C, R;
  QuantizedRows out_q = {};  // of lo, or empty
};

struct GrMixArgs {
  const float* up;  // W_up lo
  const float* n;
  float* h;
  int64_t T, C, H;
  QuantizedRows out_q = {};  // of h, or empty
};

inline int64_t units(const GrNormArgs& a) { return a.T * a.C; }
inline int64_t units(const GrApplyArgs& a) { return a.T * a.C; }
inline int64_t units(const GrGateArgs& a) { return a.T; }
inline int64_t units(const GrMixArgs& a) { return a.T; }
inline namespace ARGON_ISA_NS {
inline QuantizeArgs quantized(const GrNormArgs& a) { return {a.n, a.out_q, a.T * a.C, a.H}; }
inline QuantizeArgs quantized(const GrGateArgs& a) { return {a.lo, a.out_q, a.T, a.R}; }
inline QuantizeArgs quantized(const GrMixArgs& a) { return {a.h, a.out_q, a.T, a.H}; }
}  // namespace ARGON_ISA_NS
void gr_norm_ref(const GrNormArgs&, int64_t begin, int64_t end);
void gr_apply_ref(const GrApplyArgs&, int64_t begin, int64_t end);
void gr_gate_ref(const GrGateArgs&, int64_t begin, int64_t end);
void gr_mix_ref(const GrMixArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
