// Copies and zeros in order with the operations (metal/metal_backend.cpp). Entries are named by the unit's bytes.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/memory_args.h"

using namespace metal;

template <typename T>
kernel void copy_units(device const T* from [[buffer(0)]],
                       device T* to [[buffer(1)]],
                       constant MemoryMetalArgs& s [[buffer(2)]],
                       uint i [[thread_position_in_grid]],
                       uint threads [[threads_per_grid]]) {
  for (ulong k = i; k < s.n; k += threads) to[k] = from[k];
}
template [[host_name("copy_16")]] [[kernel]] decltype(copy_units<uint4>) copy_units<uint4>;
template [[host_name("copy_4")]] [[kernel]] decltype(copy_units<uint>) copy_units<uint>;
template [[host_name("copy_1")]] [[kernel]] decltype(copy_units<uchar>) copy_units<uchar>;

template <typename T>
kernel void zero_units(device T* to [[buffer(0)]],
                       constant MemoryMetalArgs& s [[buffer(1)]],
                       uint i [[thread_position_in_grid]],
                       uint threads [[threads_per_grid]]) {
  for (ulong k = i; k < s.n; k += threads) to[k] = T(0);
}
template [[host_name("zero_16")]] [[kernel]] decltype(zero_units<uint4>) zero_units<uint4>;
template [[host_name("zero_4")]] [[kernel]] decltype(zero_units<uint>) zero_units<uint>;
template [[host_name("zero_1")]] [[kernel]] decltype(zero_units<uchar>) zero_units<uchar>;
