// Matrix products for every weight type and size, and the quantisation of their inputs: the general way,
// which the faster kernels of matmul_step.cu and matmul_prompt.cu leave to the types and sizes they do not
// take.
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/unpack.cuh"

namespace argon::cuda {
namespace {

// A warp per 32-block.
__global__ void quantize(ops::QuantizeArgs a) {
  const int64_t block = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (block >= a.T * (a.K / 32)) return;
  const int lane = lane_id();
  const float x = a.x[block * 32 + lane];
  const uint32_t bits = __reduce_max_sync(kAllLanes, __float_as_uint(x) & 0x7fffffffu);
  const float max = __uint_as_float(bits);
  const bool zero = max < 0x1p-100f, finite = bits < 0x7f800000u;
  const float up = zero ? 0.0f : __fdiv_rn(127.0f, max);
  const int code = finite ? __float2int_rn(x * up) : 0;
  a.q.codes[block * 32 + lane] = static_cast<int8_t>(code);
  int sum = code;
#pragma unroll
  for (int s = 8; s >= 1; s /= 2) sum += __shfl_xor_sync(kAllLanes, sum, s);
  if (lane == 0) a.q.d[block] = zero ? 0.0f : __fdiv_rn(max, 127.0f);
  if (lane % 16 == 0) a.q.sums[block * 2 + lane / 16] = static_cast<int16_t>(sum);
}

constexpr int kTokens = 4;

// A thread per row and segment, for kTokens rows of x (grouped: one slot).
__global__ void matmul_codes(MatmulParams a) {
  const int64_t m = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  const int segment = static_cast<int>(threadIdx.x) % 8;
  const bool grouped = a.expert_begin != nullptr;
  const int tokens = grouped ? 1 : kTokens;
  const int64_t t0 = int64_t{blockIdx.y} * tokens;
  const int expert = grouped ? expert_of_slot(a, t0) : 0;
  const bool inside = m < a.w.rows;
  const uint8_t* data = a.w.data + expert * a.w.matrix_bytes;
  const int64_t n = a.w.cols / 32;
  float acc[kTokens] = {};
  if (inside) {
    for (int64_t b = segment_start(n, segment); b < segment_start(n, segment + 1); ++b) {
      __align__(16) int8_t w[32];
      Steps s;
      unpack_view(a.w, data, m, b, w, &s);
      const int* wi = reinterpret_cast<const int*>(w);
      for (int j = 0; j < tokens; ++j) {
        const int64_t t = t0 + j;
        if (t >= a.T) break;
        const int64_t row = a.slot_row != nullptr ? a.slot_row[t] : t;
        const int* x = reinterpret_cast<const int*>(a.q.codes + row * a.w.cols + b * 32);
        const int16_t* sums = a.q.sums + (row * n + b) * 2;
        const float d = a.q.d[row * n + b];
        int dot[2] = {0, 0};
        for (int i = 0; i < 8; ++i) dot[i / 4] = __dp4a(wi[i], x[i], dot[i / 4]);
        if (s.n == 1) {
          acc[j] = __fmaf_rn(s.sw[0] * d, static_cast<float>(dot[0] + dot[1]), acc[j]);
          if (s.has_min) acc[j] = __fmaf_rn(-(s.mw[0] * d), static_cast<float>(sums[0] + sums[1]), acc[j]);
        } else {
          for (int h = 0; h < 2; ++h) {
            acc[j] = __fmaf_rn(s.sw[h] * d, static_cast<float>(dot[h]), acc[j]);
            if (s.has_min) acc[j] = __fmaf_rn(-(s.mw[h] * d), static_cast<float>(sums[h]), acc[j]);
          }
        }
      }
    }
  }
  for (int j = 0; j < tokens; ++j) {
    const float y = join_segments(acc[j], lane_id() & ~7);
    if (inside && segment == 0 && t0 + j < a.T) a.y[(t0 + j) * a.ldy + m] = y;
  }
}

// Warps of kRows rows of W by kCols rows of x; the lanes split K as sum32 does.
template <int kRows, int kCols>
__global__ void __launch_bounds__(128) matmul_float(MatmulParams a) {
  const int64_t m0 = (int64_t{blockIdx.x} * 4 + warp_id()) * kRows, t0 = int64_t{blockIdx.y} * kCols;
  if (m0 >= a.w.rows) return;
  const int64_t K = a.w.cols;
  const int lane = lane_id();
  const int expert = a.expert_begin != nullptr ? expert_of_slot(a, t0) : 0;
  const uint8_t* w[kRows];
  const float* x[kCols];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int64_t m = m0 + i < a.w.rows ? m0 + i : m0;
    w[i] = a.w.data + expert * a.w.matrix_bytes + m * a.w.row_bytes;
  }
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const int64_t t = t0 + j < a.T ? t0 + j : t0;
    x[j] = a.x + (a.slot_row != nullptr ? a.slot_row[t] : t) * K;
  }
  constexpr int kUnroll =
      kRows * kCols == 1 ? 16 : 4;  // one sum: loads must be many to be under way together
  float acc[kRows * kCols] = {};
  const auto steps = [&](auto load) {
#pragma unroll kUnroll
    for (int64_t k = lane; k < K; k += 32) {
      float wv[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) wv[i] = load(w[i], k);
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const float xv = x[j][k];
#pragma unroll
        for (int i = 0; i < kRows; ++i) acc[j * kRows + i] = __fmaf_rn(wv[i], xv, acc[j * kRows + i]);
      }
    }
  };
  if (a.w.type == WeightType::kF32) {
    steps([](const uint8_t* p, int64_t k) { return reinterpret_cast<const float*>(p)[k]; });
  } else {
    steps([&](const uint8_t* p, int64_t k) { return load_float(a.w.type, p, k); });
  }
  if constexpr (kRows * kCols == 1) {
    const float y = fold32(acc[0]);
    if (lane == 0) a.y[t0 * a.ldy + m0] = y;
  } else {
    static_assert(kRows * kCols % 32 == 0);
    constexpr int kEach = kRows * kCols / 32;
    fold_many<kRows * kCols>(acc);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = lane * kEach + i;
      const int64_t m = m0 + at % kRows, t = t0 + at / kRows;
      if (m < a.w.rows && t < a.T) a.y[t * a.ldy + m] = acc[i];
    }
  }
}

template <int kRows, int kCols>
void launch_float(Queue& queue, const MatmulParams& a) {
  queue.launch(matmul_float<kRows, kCols>, dim3(blocks_for(a.w.rows, 4 * kRows), blocks_for(a.T, kCols)), 128,
               0, a);
}

}  // namespace

void matmul_general(Queue& queue, const MatmulParams& a) {
  if (is_plain_float(a.w.type)) {
    if (a.T < 4 || a.expert_begin != nullptr) {
      launch_float<1, 1>(queue, a);
    } else if (matmul_floats(queue, &a, 1)) {
      return;
    } else if (a.w.rows <= 16) {
      launch_float<4, 8>(queue, a);
    } else {
      launch_float<8, 8>(queue, a);
    }
    return;
  }
  const int tokens = a.expert_begin != nullptr ? 1 : kTokens;
  queue.launch(matmul_codes, dim3(blocks_for(a.w.rows, 16), blocks_for(a.T, tokens)), 128, 0, a);
}

void run(Queue& queue, const ops::QuantizeArgs& a) {
  const int64_t blocks = a.T * (a.K / 32);
  if (blocks > 0) queue.launch(quantize, blocks_for(blocks, 8), 256, 0, a);
}

}  // namespace argon::cuda
