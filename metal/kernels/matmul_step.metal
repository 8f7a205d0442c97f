// Matrix products of quantised weights with few rows of x, bound by reading W; contract in ops/matmul/matmul.h.
//
// A simdgroup takes step_rows rows of W and step_cols rows of x. Lanes take whole blocks of 32 values, in any order: the
// integer dots are exact. They leave each step's two factors in threadgroup memory; then the lanes stand in 8 groups of 4,
// one for each of the contract's segments, and add the factors of their segment's blocks in order.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/matmul.h"

using namespace metal;

constant uint step_rows [[function_constant(4)]];
constant uint step_cols [[function_constant(5)]];  // step_rows * step_cols <= 32

constant constexpr uint kSums = 8;  // sums that a lane keeps: of 4 lanes, up to 32

inline int dot4(int x, thread const int8_t* w) {
  const int4 p = int4(as_type<char4>(x)) * int4(int(w[0]), int(w[1]), int(w[2]), int(w[3]));
  return (p.x + p.y) + (p.z + p.w);
}
inline int dot16(int4 x, thread const int8_t* w) {
  return (dot4(x.x, w) + dot4(x.y, w + 4)) + (dot4(x.z, w + 8) + dot4(x.w, w + 12));
}

kernel void matmul_step(device const uint8_t* w [[buffer(0)]],
                        device const int4* codes [[buffer(1)]],
                        device const float* d [[buffer(2)]],
                        device const short2* sums [[buffer(3)]],
                        device float* y [[buffer(4)]],
                        device const int* expert_begin [[buffer(5), function_constant(grouped)]],
                        device const int* slot_row [[buffer(6), function_constant(gathered)]],
                        constant MatmulMetalArgs& s [[buffer(7)]],
                        threadgroup float2* shared [[threadgroup(0)]],
                        uint2 tg [[threadgroup_position_in_grid]],
                        uint sg [[simdgroup_index_in_threadgroup]],
                        uint simdgroups [[simdgroups_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
  const argon::WeightType type = argon::WeightType(weight_type);
  const bool two_steps = has_two_steps(type), has_min = has_minimum(type);
  const uint parts = (two_steps ? 2u : 1u) * (has_min ? 2u : 1u);
  const uint m0 = (tg.x * simdgroups + sg) * step_rows;
  if (m0 >= s.M) return;
  MatmulWork work;
  find_work(&work, expert_begin, s, tg.y, step_cols, lane);

  const uint n = s.K / 32, lanes = 1u << s.lane_bits, all = step_rows * step_cols;
  const uint block = lane & (lanes - 1), first_row = lane >> s.lane_bits, row_step = 32u >> s.lane_bits;
  const uint segment = lane / 4, quarter = lane % 4;
  const uint begin = segment_begin(n, segment), end = segment_begin(n, segment + 1);
  // Factors of sum `i`, part `p`, of the lanes' blocks: pairs[(i*parts + p)*lanes + block].
  threadgroup float2* pairs = shared + sg * all * parts * lanes;
  threadgroup float* segments = (threadgroup float*)pairs;

  for (uint t0 = work.first; t0 < work.stop; t0 += step_cols) {
    float acc[kSums];
#pragma clang loop unroll(full)
    for (uint i = 0; i < kSums; ++i) acc[i] = 0.0f;
    for (uint b0 = 0; b0 < n; b0 += lanes) {
      const uint b = b0 + block;
      if (b < n) {
        for (uint r = first_row; r < step_rows; r += row_step) {
          int8_t code[32];
          argon::Steps steps;
          const ulong m = min(m0 + r, s.M - 1);
          unpack_block(type, w + work.matrix + m * s.row_bytes, b, code, &steps);
          for (uint c = 0; c < step_cols; ++c) {
            const ulong at = input_row(slot_row, min(t0 + c, work.stop - 1)) * n + b;
            const float dx = d[at];
            const int low = dot16(codes[2 * at], code), high = dot16(codes[2 * at + 1], code + 16);
            threadgroup float2* out = pairs + (r * step_cols + c) * parts * lanes + block;
            *out = float2(steps.sw[0] * dx, float(two_steps ? low : low + high));
            if (has_min) {
              const int2 sum = int2(sums[at]);
              out += lanes;
              *out = float2(-(steps.mw[0] * dx), float(two_steps ? sum.x : sum.x + sum.y));
              if (two_steps) out[2 * lanes] = float2(-(steps.mw[1] * dx), float(sum.y));
            }
            if (two_steps) out[lanes] = float2(steps.sw[1] * dx, float(high));
          }
        }
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      const uint from = max(begin, b0), to = min(end, b0 + lanes);
#pragma clang loop unroll(full)
      for (uint i = 0; i < kSums; ++i) {
        if (quarter + 4 * i >= all) continue;
        threadgroup const float2* mine = pairs + (quarter + 4 * i) * parts * lanes;
        for (uint k = from; k < to; ++k) {
          for (uint p = 0; p < parts; ++p) {
            const float2 f = mine[p * lanes + (k - b0)];
            acc[i] = fma(f.x, f.y, acc[i]);
          }
        }
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma clang loop unroll(full)
    for (uint i = 0; i < kSums; ++i) {
      if (quarter + 4 * i < all) segments[(quarter + 4 * i) * 8 + segment] = acc[i];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint m = m0 + lane / step_cols, t = t0 + lane % step_cols;
    if (lane < all && m < s.M && t < work.stop) {
      threadgroup const float* part = segments + lane * 8;
      float sum = part[0];
      for (uint i = 1; i < 8; ++i) sum = sum + part[i];
      y[ulong(t) * s.ldy + m] = sum;
    }
    if (t0 + step_cols < work.stop) simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}
