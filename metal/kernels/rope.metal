// Rotary embedding; contract in ops/rope/rope.h. A thread takes a pair: x = index of the pair, y = head, z = row.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/rope_args.h"

using namespace metal;

kernel void rope(device float* x [[buffer(0)]],
                 device const float* table [[buffer(1)]],
                 constant RopeMetalArgs& s [[buffer(2)]],
                 uint3 at [[thread_position_in_grid]]) {
  const uint half_rot = s.rot / 2;
  if (at.x >= half_rot) return;
  device const float* c = table + ulong(s.position0 + at.z * s.position_step) * s.rot;
  device float* row = x + at.z * s.stride + at.y * s.inner;
  const float x1 = row[at.x], x2 = row[at.x + half_rot];
  const float cosine = c[at.x], sine = c[at.x + half_rot];
  row[at.x] = fma(x1, cosine, -(x2 * sine));
  row[at.x + half_rot] = fma(x2, cosine, x1 * sine);
}
