#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  float v[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  v[i & 3] = x[i];
  y[i] = v[i / 16 + 1];
}
