// Tried and slower (docs/lab/metal-locality.md): the scan in which only simdgroup 0 adds the q part, so that the other three
// skip two additions per token. The branch costs more than it saves: +1.0 to +1.4 % on an M5.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/gdn_scan.h"

using namespace metal;

constant bool grouped [[function_constant(0)]];

kernel void gdn_scanr_4_sg0(device const float* qn [[buffer(0)]],
                            device const float* kn [[buffer(1)]],
                            device const float* vc [[buffer(2)]],
                            device const float2* gb [[buffer(3)]],
                            device const float* kq [[buffer(4)]],
                            device float* state [[buffer(5)]],
                            device float* o [[buffer(6)]],
                            constant GdnMetalArgs& s [[buffer(7)]],
                            uint tg [[threadgroup_position_in_grid]],
                            uint sg [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint rows = kGdnD / 4;
  threadgroup float red_k[2][4][32];
  threadgroup float red_q[2][4][32];

  const uint hk = s.hk, hv = s.hv;
  const uint head = gdn_head(tg / kGdnTiles, hk, hv, grouped);
  const uint key_head = head % hk;
  const uint column = (tg % kGdnTiles) * kGdnColumns + lane;
  device float* mine = state + (head * kGdnD + sg * rows) * kGdnD + column;

  float S[rows];
#pragma clang loop unroll(full)
  for (uint i = 0; i < rows; ++i) S[i] = mine[i * kGdnD];

  for (uint t = 0; t < s.T; ++t) {
    const uint row = (t * hk + key_head) * kGdnD + sg * rows;
    device const float4* k = (device const float4*)(kn + row);
    device const float4* q = (device const float4*)(qn + row);
    const float2 g = gb[t * hv + head];
    const float v = vc[(t * hv + head) * kGdnD + column];

    const uint slot = t & 1;
    const float2 partial = gdn_partial<4>(S, k, q);
    red_k[slot][sg][lane] = partial.x;
    red_q[slot][sg][lane] = partial.y;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float total_k =
        (red_k[slot][0][lane] + red_k[slot][1][lane]) + (red_k[slot][2][lane] + red_k[slot][3][lane]);

    const float m = g.x * total_k;
    const float d = g.y * (v - m);
    gdn_update<rows>(S, k, d, g.x);
    if (sg == 0) {
      const float total_q =
          (red_q[slot][0][lane] + red_q[slot][1][lane]) + (red_q[slot][2][lane] + red_q[slot][3][lane]);
      o[(t * hv + head) * kGdnD + column] = fma(kq[t * hk + key_head], d, g.x * total_q);
    }
  }

#pragma clang loop unroll(full)
  for (uint i = 0; i < rows; ++i) mine[i * kGdnD] = S[i];
}
