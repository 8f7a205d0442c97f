#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
inline uint depth(uint n) {
  if (n == 0) return 0;
  return depth(n / 2) + 1;
}
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = x[depth(i)];
}
