#include <metal_stdlib>
using namespace metal;
kernel void broken(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 1.0f; }
