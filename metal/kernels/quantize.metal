// Quantisation of a matrix product's input; contract in ops/matmul/matmul.h. A thread takes a block of 32 values.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/matmul_args.h"

using namespace metal;

kernel void quantize(device const float4* x [[buffer(0)]],
                     device char4* codes [[buffer(1)]],
                     device float* d [[buffer(2)]],
                     device short2* sums [[buffer(3)]],
                     constant QuantizeMetalArgs& s [[buffer(4)]],
                     uint at [[thread_position_in_grid]]) {
  const ulong block = at;
  if (block >= s.blocks) return;
  float4 v[8];
  uint bits = 0;  // of max|x|: as integers, so that a NaN is the largest
#pragma clang loop unroll(full)
  for (uint i = 0; i < 8; ++i) {
    v[i] = x[8 * block + i];
    const uint4 u = as_type<uint4>(v[i]) & 0x7fffffffu;
    bits = max(bits, max(max(u.x, u.y), max(u.z, u.w)));
  }
  const float largest = as_type<float>(bits);
  const bool zero = largest < 7.88860905e-31f, finite = bits < 0x7f800000u;  // 2^-100
  const float up = zero ? 0.0f : 127.0f / largest;
  d[block] = zero ? 0.0f : largest / 127.0f;
  int sum[2] = {0, 0};
#pragma clang loop unroll(full)
  for (uint i = 0; i < 8; ++i) {
    const float4 scaled = finite ? rint(v[i] * up) : float4(0.0f);
    const int4 code = int4(scaled);
    codes[8 * block + i] = char4(code);
    sum[i / 4] += (code.x + code.y) + (code.z + code.w);
  }
  sums[block] = short2(short(sum[0]), short(sum[1]));
}
