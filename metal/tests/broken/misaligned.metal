#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  device const float4* at = (device const float4*)(x + i);
  const float4 v = at[0];
  y[i] = v.x + v.w;
}
