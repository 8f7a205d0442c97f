// The gated residual beside its norm (prompt.metal); contracts in ops/gated_residual/gated_residual.h.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/gated_residual_args.h"

using namespace metal;

constant bool inject [[function_constant(0)]];

// x = index, y = stream.
kernel void gr_apply(device float* x [[buffer(0)]],
                     device const float* b [[buffer(1)]],
                     device const float* inj [[buffer(2)]],
                     constant GatedResidualMetalArgs& s [[buffer(3)]],
                     uint2 at [[thread_position_in_grid]]) {
  if (at.x >= s.H) return;
  const float gate = 2.0f / (1.0f + argon::exp32(-inj[at.y]));
  const uint i = at.y * s.H + at.x;
  x[i] = fma(gate, b[at.y / s.C * s.H + at.x], x[i]);
}

kernel void gr_gate(device float* lo [[buffer(0)]],
                    device float* inj [[buffer(1), function_constant(inject)]],
                    constant GatedResidualMetalArgs& s [[buffer(2)]],
                    uint i [[thread_position_in_grid]]) {
  const float inv_c = 1.0f / float(s.C);
  if (i < s.n) lo[i] = argon::silu32(lo[i] * inv_c);
  if (inject) {
    if (i < s.streams) inj[i] = inj[i] * inv_c;
  }
}

// x = index, y = token.
kernel void gr_mix(device const float* up [[buffer(0)]],
                   device const float* n [[buffer(1)]],
                   device float* h [[buffer(2)]],
                   constant GatedResidualMetalArgs& s [[buffer(3)]],
                   uint2 at [[thread_position_in_grid]]) {
  if (at.x >= s.H) return;
  const uint first = at.y * s.C * s.H + at.x;
  float acc = 0.0f;
  for (uint c = 0; c < s.C; ++c) acc = fma(argon::sigmoid32(up[first + c * s.H]), n[first + c * s.H], acc);
  h[at.y * s.H + at.x] = acc * (1.0f / float(s.C));
}
