// What the forms of the GDN scan share: the head schedule and one simdgroup's part of a token.
#pragma once

#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/gdn_args.h"

constant constexpr uint kGdnD = 128;       // head size, keys and values
constant constexpr uint kGdnColumns = 32;  // value columns per threadgroup: one per lane
constant constexpr uint kGdnTiles = kGdnD / kGdnColumns;

// Which value head a threadgroup works on. Plain: in order, so the hv/hk heads that read one key head's rows
// run hk heads apart. Grouped: those heads follow each other, so threadgroups that run at one time read fewer
// distinct rows.
inline uint gdn_head(uint g, uint hk, uint hv, bool in_groups) {
  const uint per_key = hv / hk;
  return in_groups ? g / per_key + (g % per_key) * hk : g;
}

// NSG simdgroups share the key dimension; each holds 8/NSG of the contract's eight parts. S: this lane's
// column of the simdgroup's rows. Returns (k.S, q.S) over these rows: the parts added pairwise, as the
// contract's tree does.
template <uint NSG>
inline float2 gdn_partial(thread const float* S, device const float4* k, device const float4* q) {
  static_assert(NSG == 4, "two parts per simdgroup; another split adds its parts in another shape");
  float2 p[2];
#pragma clang loop unroll(full)
  for (uint part = 0; part < 2; ++part) {
    float pk = 0.0f, pq = 0.0f;
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4; ++i) {
      const float4 kv = k[part * 4 + i], qv = q[part * 4 + i];
      thread const float* s = S + (part * 4 + i) * 4;
      pk = metal::fma(kv.x, s[0], pk);
      pq = metal::fma(qv.x, s[0], pq);
      pk = metal::fma(kv.y, s[1], pk);
      pq = metal::fma(qv.y, s[1], pq);
      pk = metal::fma(kv.z, s[2], pk);
      pq = metal::fma(qv.z, s[2], pq);
      pk = metal::fma(kv.w, s[3], pk);
      pq = metal::fma(qv.w, s[3], pq);
    }
    p[part] = float2(pk, pq);
  }
  return p[0] + p[1];
}

// S = fma(kn, d, decay*S) for the simdgroup's rows.
template <uint Rows>
inline void gdn_update(thread float* S, device const float4* k, float d, float decay) {
#pragma clang loop unroll(full)
  for (uint i = 0; i < Rows / 4; ++i) {
    const float4 kv = k[i];
    S[4 * i] = metal::fma(kv.x, d, decay * S[4 * i]);
    S[4 * i + 1] = metal::fma(kv.y, d, decay * S[4 * i + 1]);
    S[4 * i + 2] = metal::fma(kv.z, d, decay * S[4 * i + 2]);
    S[4 * i + 3] = metal::fma(kv.w, d, decay * S[4 * i + 3]);
  }
}
