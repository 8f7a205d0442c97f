#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float part[64];
  float s = 0.0f;
  for (uint round = 0; round < 2; ++round) {
    part[tid] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    s = s + part[(tid + 32) % 64];  // the next round overwrites this without a barrier
  }
  y[i] = s;
}
