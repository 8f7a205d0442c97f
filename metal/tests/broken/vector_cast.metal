#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  const int4 v = int4(1, 2, 3, int(i));
  const float4 f = (float4)v;
  y[i] = x[i] + f.w;
}
