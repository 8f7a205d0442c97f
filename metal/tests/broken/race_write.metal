#include <metal_stdlib>
#pragma METAL fp contract(off)
using namespace metal;
kernel void broken(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float part[64];
  part[tid / 2] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = part[tid / 2];
}
