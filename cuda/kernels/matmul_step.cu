// Matrix products with few rows of x, bound by reading the weights: a warp takes a row of W, a group of 4
// lanes one of the contract's 8 segments. Two lanes hold the halves of a block, so a group takes two blocks
// at a time: integer dots are exact in any order, the two steps are then added in block order by all four
// lanes.
#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

constexpr int kWarps = 4;

__device__ inline int dot16(int4 a, int4 b) {
  return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, 0))));
}

// kCols rows of x from t0 on; grouped: one slot.
template <class Format, int kCols>
__global__ void __launch_bounds__(kWarps * 32) matmul_step_kernel(MatmulParams a) {
  const int64_t m = int64_t{blockIdx.x} * kWarps + warp_id(), t0 = int64_t{blockIdx.y} * kCols;
  if (m >= a.w.rows) return;
  const int lane = lane_id(), half = lane & 1, second = lane >> 1 & 1, segment = lane / 4;
  const int n = static_cast<int>(a.w.cols / 32);
  const uint8_t* data = a.w.data;
  if (a.expert_begin != nullptr) data += expert_of_slot(a, t0) * a.w.matrix_bytes;
  int64_t row[kCols];
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const int64_t t = t0 + j < a.T ? t0 + j : t0;
    row[j] = a.slot_row != nullptr ? a.slot_row[t] : t;
  }
  const int begin = segment_start(n, segment), end = segment_start(n, segment + 1);
  // Every lane of the warp takes as many turns as the longest segment, for the shuffles.
  const int turns = (n + 7) / 8 / 2 + 1;
  // Loads of kAhead turns come before their sums: the shuffles would hold them back.
  constexpr int kAhead = kCols == 1 ? 4 : 2;
  float acc[kCols] = {};
  for (int turn0 = 0; turn0 < turns; turn0 += kAhead) {
    int4 weights[kAhead], inputs[kAhead][kCols];
    Scale scales[kAhead];
    float steps[kAhead][kCols];
    int all_sums[kAhead][kCols];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int own = begin + 2 * (turn0 + i) + second;
      const int b = own < end ? own : n - 1;
      weights[i] = Format::codes(a.w, data, m, n, b, half);
      scales[i] = Format::scale(a.w, data, m, n, b);
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const int64_t at = row[j] * n + b;
        inputs[i][j] = *reinterpret_cast<const int4*>(a.q.codes + at * 32 + half * 16);
        steps[i][j] = a.q.d[at];
        if (Format::kMin) all_sums[i][j] = *reinterpret_cast<const int*>(a.q.sums + at * 2);
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int turn = turn0 + i;
      const int4 w = weights[i];
      const Scale s = scales[i];
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const int4 x = inputs[i][j];
        const float d = steps[i][j];
        int dot = dot16(w, x);
        dot += __shfl_xor_sync(kAllLanes, dot, 1);
        const float step = s.sw * d, value = static_cast<float>(dot);
        const float step2 = __shfl_xor_sync(kAllLanes, step, 2),
                    value2 = __shfl_xor_sync(kAllLanes, value, 2);
        const int first_b = begin + 2 * turn;
        float y = acc[j];
        const float one = __fmaf_rn(second ? step2 : step, second ? value2 : value, y);
        y = first_b < end ? one : y;
        if constexpr (Format::kMin) {
          const int sums = all_sums[i][j];
          const float low = -(s.mw * d);
          const float sum = static_cast<float>(static_cast<int16_t>(sums) + (sums >> 16));
          const float low2 = __shfl_xor_sync(kAllLanes, low, 2), sum2 = __shfl_xor_sync(kAllLanes, sum, 2);
          const float one_min = __fmaf_rn(second ? low2 : low, second ? sum2 : sum, y);
          y = first_b < end ? one_min : y;
          const float two = __fmaf_rn(second ? step : step2, second ? value : value2, y);
          const float two_min = __fmaf_rn(second ? low : low2, second ? sum : sum2, two);
          y = first_b + 1 < end ? two_min : y;
        } else {
          const float two = __fmaf_rn(second ? step : step2, second ? value : value2, y);
          y = first_b + 1 < end ? two : y;
        }
        acc[j] = y;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const float y = join_segments(acc[j], 0, 4);
    if (lane == 0 && t0 + j < a.T) a.y[(t0 + j) * a.ldy + m] = y;
  }
}

template <class Format>
bool launch_step(Queue& queue, const MatmulParams& a) {
  const unsigned rows = blocks_for(a.w.rows, kWarps);
  if (a.expert_begin != nullptr || a.T == 1) {
    queue.launch(matmul_step_kernel<Format, 1>, dim3(rows, static_cast<unsigned>(a.T)), kWarps * 32, 0, a);
  } else if (a.T <= 4) {
    queue.launch(matmul_step_kernel<Format, 4>, dim3(rows, blocks_for(a.T, 4)), kWarps * 32, 0, a);
  } else {
    queue.launch(matmul_step_kernel<Format, 8>, dim3(rows, blocks_for(a.T, 8)), kWarps * 32, 0, a);
  }
  return true;
}

}  // namespace

bool matmul_step(Queue& queue, const MatmulParams& a) {
  switch (a.w.type) {
    case WeightType::kQ8_0:
      return a.w.split && launch_step<SplitQ8_0>(queue, a);
    case WeightType::kQ4_0:
      return a.w.split && launch_step<SplitQ4_0>(queue, a);
    case WeightType::kIQ4_NL:
      return a.w.split && launch_step<SplitIQ4_NL>(queue, a);
    case WeightType::kQ4_K:
      return reinterpret_cast<uintptr_t>(a.w.data) % 16 == 0 && launch_step<FileQ4_K>(queue, a);
    default:
      return false;
  }
}

}  // namespace argon::cuda
