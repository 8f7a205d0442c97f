#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
template <int N>
inline float pick(float v) {
  if constexpr (N > 0) return v;
  return -v;
}
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = pick<1>(x[i]);
}
