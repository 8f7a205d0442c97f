// Rows into the cache; contract in ops/kv_store/kv_store.h. A thread takes a value: x = index, y = row. dst points to the
// first row that is written. Narrowing is written out: what a GPU does with subnormal halves is its own affair.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/half.h"
#include "metal/kernels/kv_store_args.h"

using namespace metal;

kernel void kv_store_f32(device const float* x [[buffer(0)]],
                         device float* dst [[buffer(1)]],
                         constant KvStoreMetalArgs& s [[buffer(2)]],
                         uint2 at [[thread_position_in_grid]]) {
  if (at.x < s.n) dst[at.y * s.n + at.x] = x[at.y * s.stride + at.x];
}

kernel void kv_store_f16(device const float* x [[buffer(0)]],
                         device ushort* dst [[buffer(1)]],
                         constant KvStoreMetalArgs& s [[buffer(2)]],
                         uint2 at [[thread_position_in_grid]]) {
  if (at.x < s.n) dst[at.y * s.n + at.x] = argon::f32_to_f16(x[at.y * s.stride + at.x]);
}
