// Route gdn_scan_avx512: the scan of gdn_avx2.cpp with 16 value columns in a vector.
#include <algorithm>
#include <type_traits>

#include "cpu/kernels/wide_avx512.h"
#include "ops/gdn/gdn.h"

namespace argon::ops {

void gdn_scan_avx2(const GdnScanArgs& a, int64_t begin, int64_t end);

inline namespace ARGON_ISA_NS {

constexpr int64_t kMostD = 1024;  // ModelConfig's bound on D

inline Floats16 sum_parts(const Floats16* p) {
  return add16(add16(add16(p[0], p[1]), add16(p[2], p[3])), add16(add16(p[4], p[5]), add16(p[6], p[7])));
}

// NV vectors of 16 value columns of one head, all tokens. Token t's change of the state is made when token t
// + 1 reads it, so that each element is loaded and stored once per token.
template <int NV>
inline void scan_columns16(const GdnScanArgs& a, int64_t head, int64_t column, float* S) {
  constexpr int kParts = 4 / NV;  // at a time: independent chains
  const GdnShape& s = a.s;
  const int64_t part = s.D / 8, key = head % s.hk, width = 16 * NV;
  float* state = a.state + head * s.D * s.D + column;
  for (int64_t i = 0; i < s.D; ++i) {
    for (int v = 0; v < NV; ++v) store16(S + width * i + 16 * v, load16(state + i * s.D + 16 * v));
  }
  Floats16 d[NV], decay = set16(1.0f);
  for (int v = 0; v < NV; ++v) d[v] = zero16();
  const float* before = nullptr;  // the last token's key
  for (int64_t t = 0; t < s.T; ++t) {
    const float *k = a.kn + (t * s.hk + key) * s.D, *q = a.qn + (t * s.hk + key) * s.D;
    const int64_t at = t * s.hv + head;
    Floats16 pk[NV][8], pq[NV][8];
    const auto all_parts = [&](auto change) {
#pragma GCC unroll 4
      for (int p = 0; p < 8; p += kParts) {
        Floats16 ak[kParts][NV], aq[kParts][NV];
#pragma GCC unroll 4
        for (int i = 0; i < kParts * NV; ++i) ak[i / NV][i % NV] = aq[i / NV][i % NV] = zero16();
        for (int64_t r = 0; r < part; ++r) {
#pragma GCC unroll 4
          for (int j = 0; j < kParts; ++j) {
            const int64_t i = (p + j) * part + r;
            const Floats16 ki = set16(k[i]), qi = set16(q[i]);
#pragma GCC unroll 2
            for (int v = 0; v < NV; ++v) {
              float* element = S + width * i + 16 * v;
              Floats16 row = load16(element);
              if constexpr (decltype(change)::value) {
                row = fma16(set16(before[i]), d[v], mul16(decay, row));
                store16(element, row);
              }
              ak[j][v] = fma16(ki, row, ak[j][v]);
              aq[j][v] = fma16(qi, row, aq[j][v]);
            }
          }
        }
#pragma GCC unroll 4
        for (int j = 0; j < kParts; ++j) {
          for (int v = 0; v < NV; ++v) pk[v][p + j] = ak[j][v], pq[v][p + j] = aq[j][v];
        }
      }
    };
    before != nullptr ? all_parts(std::true_type()) : all_parts(std::false_type());
    decay = set16(a.gb[2 * at]);
    const Floats16 beta = set16(a.gb[2 * at + 1]), kq = set16(a.kq[t * s.hk + key]);
    for (int v = 0; v < NV; ++v) {
      const Floats16 m = mul16(decay, sum_parts(pk[v]));
      d[v] = mul16(beta, sub16(load16(a.vc + at * s.D + column + 16 * v), m));
      store16(a.o + at * s.D + column + 16 * v, fma16(kq, d[v], mul16(decay, sum_parts(pq[v]))));
    }
    before = k;
  }
  for (int64_t i = 0; i < s.D; ++i) {
    for (int v = 0; v < NV; ++v) {
      const Floats16 row = mul16(decay, load16(S + width * i + 16 * v));
      store16(state + i * s.D + 16 * v, fma16(set16(before[i]), d[v], row));
    }
  }
}

}  // namespace ARGON_ISA_NS

void gdn_scan_avx512(const GdnScanArgs& a, int64_t begin, int64_t end) {
  static_assert(kGdnColumns == 8);
  const int64_t groups = a.s.D / kGdnColumns;
  alignas(64) float S[kMostD * 32];
  if (a.s.T <= 0) return;
  for (int64_t u = begin; u < end;) {
    const int64_t head = u / groups, group = u % groups, left = std::min(end - u, groups - group);
    if (left >= 4) {
      scan_columns16<2>(a, head, group * kGdnColumns, S);
      u += 4;
    } else if (left >= 2) {
      scan_columns16<1>(a, head, group * kGdnColumns, S);
      u += 2;
    } else {
      gdn_scan_avx2(a, u, u + 1);
      u += 1;
    }
  }
}

}  // namespace argon::ops
