// The gated delta rule of a GDN layer, between its input projections and its output projection (MODEL.md
// "Gated DeltaNet layer"), in three stages. Value head j reads key head j % hk (the file's tiled order).
//
//   gdn_pre   per channel: conv = w[0]*x[t-3] (product), then fma(w[i], x[t-3+i], conv) to the newest; u =
//   silu(conv).
//             q and k heads: L2 norm over D, r = 1/sqrt(ss + eps) (sum32 for D < 512), kn = u*r, qn =
//             (u*r)*(1/sqrt(D)). kq = sum32 of kn*qn. decay = exp(a*softplus(alpha + dt)), beta =
//             sigmoid(beta). history: the last 3 columns of raw qkv.
//   gdn_scan  token after token, per value head and value column; S [key][value]. The key dimension is cut
//   into 8 parts of
//             D/8, each accumulated in order by fma from +0, for k.S and for q.S;
//             total = ((p0+p1)+(p2+p3))+((p4+p5)+(p6+p7)); m = decay*total_k; d = beta*(v-m); S = fma(kn, d,
//             decay*S); o = fma(kq, d, decay*total_q).
//   gdn_post  y = ((o*r)*w) * sigmoid(z), r = 1/sqrt(ss/D + eps) over each head of D.
//
// Shapes  qkv [T][2*hk*D + hv*D] (q heads, k heads, v heads); alpha, beta, a, dt [.][hv]; conv_w
// [channels][4]; history
//         [3][channels], oldest first; qn, kn [T][hk][D]; vc, o, z, y [T][hv][D]; gb [T][hv][2] (decay,
//         beta); kq [T][hk]; state [hv][D key][D value]; norm_w [D].
// State   history and state are read and replaced: zero at the start of a sequence, carried from pass to
// pass. Units   pre: hk key heads (q and k), then hv value heads. scan: hv value heads x D/8 groups of 8
// value columns,
//         group fastest. post: tokens.   D is a multiple of 8; 1/sqrt(D) is the f32 quotient with the root
//         rounded first.
// Source  Yang et al. 2024 (gated delta networks); NUMERICS.md "Operations".
#pragma once

#include <cstdint>

#include "base/isa_namespace.h"
#include "ops/matmul/matmul.h"
#include "ops/route.h"

namespace argon::ops {

inline constexpr int64_t kGdnConvTaps = 4;
inline constexpr int64_t kGdnColumns = 8;

struct GdnShape {
  int64_t T, hk, hv, D;
};

inline namespace ARGON_ISA_NS {
inline int64_t channels(const GdnShape& s) { return (2 * s.hk + s.hv) * s.D; }
}  // namespace ARGON_ISA_NS

struct GdnPreArgs {
  GdnShape s;
  const float* qkv;
  const float *alpha, *beta;  // [T][hv]: W_a h and W_b h
  const float* conv_w;
  const float *a, *dt;  // [hv]: -exp(A_log) and dt_bias
  float* history;
  float *qn, *kn, *vc, *gb, *kq;
  float eps;
};

struct GdnScanArgs {
  GdnShape s;
  const float *qn, *kn, *vc, *gb, *kq;
  float* state;
  float* o;
};

struct GdnPostArgs {
  GdnShape s;
  const float *o, *z, *norm_w;
  float* y;
  float eps;
  QuantizedRows out_q = {};  // of y, or empty
};

inline int64_t units(const GdnPreArgs& a) { return a.s.hk + a.s.hv; }
inline int64_t units(const GdnScanArgs& a) { return a.s.hv * (a.s.D / kGdnColumns); }
inline int64_t units(const GdnPostArgs& a) { return a.s.T; }
inline namespace ARGON_ISA_NS {
inline QuantizeArgs quantized(const GdnPostArgs& a) { return {a.y, a.out_q, a.s.T, a.s.hv * a.s.D}; }
}  // namespace ARGON_ISA_NS
void gdn_pre_ref(const GdnPreArgs&, int64_t begin, int64_t end);
void gdn_scan_ref(const GdnScanArgs&, int64_t begin, int64_t end);
void gdn_post_ref(const GdnPostArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
