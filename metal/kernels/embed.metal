// Rows of a weight matrix, widened; contract in ops/embed/embed.h. Threads: x = value (float types) or block of 32
// values, y = id.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/embed_args.h"
#include "metal/kernels/weights.h"

using namespace metal;

constant uint weight_type [[function_constant(0)]];

kernel void embed_float(device const uint8_t* w [[buffer(0)]],
                        device const int* ids [[buffer(1)]],
                        device float* y [[buffer(2)]],
                        constant EmbedMetalArgs& s [[buffer(3)]],
                        uint2 at [[thread_position_in_grid]]) {
  if (at.x >= s.K) return;
  device const uint8_t* row = w + ulong(ids[at.y]) * s.row_bytes;
  const float v = load_weight(argon::WeightType(weight_type), row, at.x);
  for (uint c = 0; c < s.copies; ++c) y[(at.y * s.copies + c) * s.K + at.x] = v;
}

kernel void embed_blocks(device const uint8_t* w [[buffer(0)]],
                         device const int* ids [[buffer(1)]],
                         device float* y [[buffer(2)]],
                         constant EmbedMetalArgs& s [[buffer(3)]],
                         uint2 at [[thread_position_in_grid]]) {
  if (at.x >= s.K / 32) return;
  device const uint8_t* row = w + ulong(ids[at.y]) * s.row_bytes;
  int8_t codes[32];
  argon::Steps steps;
  unpack_block(argon::WeightType(weight_type), row, at.x, codes, &steps);
  for (uint i = 0; i < 32; ++i) {
    const uint step = steps.n == 2 ? i / 16 : 0;
    const float code = float(codes[i]);
    const float v = steps.has_min ? fma(code, steps.sw[step], -steps.mw[step]) : code * steps.sw[step];
    for (uint c = 0; c < s.copies; ++c) y[(at.y * s.copies + c) * s.K + 32 * at.x + i] = v;
  }
}
