#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
inline float helper(float v, uint tid) {
  threadgroup float part[64];
  part[tid] = v;
  return part[tid];
}
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = helper(x[i], i);
}
