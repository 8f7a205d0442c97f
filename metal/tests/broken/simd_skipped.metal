#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  float v = x[i];
  if (lane < 16) v = v + simd_shuffle_xor(v, 1);
  y[i] = v;
}
