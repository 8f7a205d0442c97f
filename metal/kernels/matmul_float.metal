// Matrix products of float weights (F32, F16, BF16); contract in ops/matmul/matmul.h. A simdgroup takes R rows of W and C
// rows of x; lane l holds lane l of each of the R*C sums. At the end every lane folds one of them, handed over through
// threadgroup memory, which costs one barrier where shuffles would cost five for each sum.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/matmul.h"
#include "metal/kernels/sums.h"

using namespace metal;

template <uint R, uint C>
kernel void matmul_float(device const uint8_t* w [[buffer(0)]],
                         device const float* x [[buffer(1)]],
                         device float* y [[buffer(2)]],
                         device const int* expert_begin [[buffer(3), function_constant(grouped)]],
                         device const int* slot_row [[buffer(4), function_constant(gathered)]],
                         constant MatmulMetalArgs& s [[buffer(5)]],
                         threadgroup float* shared [[threadgroup(0)]],
                         uint2 tg [[threadgroup_position_in_grid]],
                         uint sg [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  const argon::WeightType type = argon::WeightType(weight_type);
  const uint m0 = (tg.x * simdgroups + sg) * R;
  if (m0 >= s.M) return;
  MatmulWork work;
  find_work(&work, expert_begin, s, tg.y, C, lane);
  threadgroup float* sums = shared + sg * R * C * 33;  // [R*C][33]: a row's 32 lanes
  device const uint8_t* rows = w + work.matrix;

  for (uint t0 = work.first; t0 < work.stop; t0 += C) {
    const uint count = min(C, work.stop - t0);
    float acc[R][C];
    ulong at[C];
#pragma clang loop unroll(full)
    for (uint c = 0; c < C; ++c) {
      at[c] = input_row(slot_row, t0 + min(c, count - 1)) * s.K;
#pragma clang loop unroll(full)
      for (uint r = 0; r < R; ++r) acc[r][c] = 0.0f;
    }
    for (uint k = lane; k < s.K; k += 32) {
      float v[R];
#pragma clang loop unroll(full)
      for (uint r = 0; r < R; ++r) v[r] = load_weight(type, rows + min(m0 + r, s.M - 1) * s.row_bytes, k);
#pragma clang loop unroll(full)
      for (uint c = 0; c < C; ++c) {
        if (c >= count) continue;
        const float xv = x[at[c] + k];
#pragma clang loop unroll(full)
        for (uint r = 0; r < R; ++r) acc[r][c] = fma(v[r], xv, acc[r][c]);
      }
    }
#pragma clang loop unroll(full)
    for (uint r = 0; r < R; ++r) {
#pragma clang loop unroll(full)
      for (uint c = 0; c < C; ++c) sums[(r * C + c) * 33 + lane] = acc[r][c];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint m = m0 + lane / C, t = lane % C;
    if (lane < R * C && m < s.M && t < count) {
      float v[32];
#pragma clang loop unroll(full)
      for (uint i = 0; i < 32; ++i) v[i] = sums[lane * 33 + i];
      y[ulong(t0 + t) * s.ldy + m] = fold32_of(v);
    }
    if (t0 + C < work.stop) simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}
template [[host_name("matmul_float_8x1")]] [[kernel]] decltype(matmul_float<8, 1>) matmul_float<8, 1>;
template [[host_name("matmul_float_32x1")]] [[kernel]] decltype(matmul_float<32, 1>) matmul_float<32, 1>;
template [[host_name("matmul_float_4x8")]] [[kernel]] decltype(matmul_float<4, 8>) matmul_float<4, 8>;
