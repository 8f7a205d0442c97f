// h = silu(g)*u; contract in ops/swiglu/swiglu.h. A thread takes a value.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/swiglu_args.h"

using namespace metal;

kernel void swiglu(device const float* g [[buffer(0)]],
                   device const float* u [[buffer(1)]],
                   device float* h [[buffer(2)]],
                   constant SwigluMetalArgs& s [[buffer(3)]],
                   uint i [[thread_position_in_grid]]) {
  if (i < s.n) h[i] = argon::silu32(g[i]) * u[i];
}
