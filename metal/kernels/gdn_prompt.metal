#include <metal_stdlib>
#pragma METAL fp contract(off)
#include "base/exact_math.h"
using namespace metal;
constant bool grouped [[function_constant(0)]];
template <int N, int TB>
kernel void t(device const float* x [[buffer(0)]], device float* y [[buffer(1), function_constant(grouped)]], constant uint& n [[buffer(2)]],
  uint3 tg [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float2 red[2][N][32];
  float2 v = float2(x[lane], argon::exp32(x[n]));
  red[0][0][lane] = v.yx;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float s = red[0][0][31 - lane].x + simd_shuffle_xor(v.x, 3) + float(simd_prefix_exclusive_sum(uint(lane)));
  y[lane] = s;
}
template [[host_name("t4")]] [[kernel]] decltype(t<4, 0>) t<4, 0>;
