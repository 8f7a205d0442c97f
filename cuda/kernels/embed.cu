// Row look-up: blocks of 32 values of a row, or single values of a float row, written to every copy.
#include "cuda/kernels.h"
#include "cuda/kernels/unpack.cuh"

namespace argon::cuda {
namespace {

struct EmbedParams {
  WeightView w;
  const int32_t* ids;
  float* y;
  int64_t n, copies;
};

__device__ inline float value_of(const int8_t (&codes)[32], const Steps& s, int j) {
  const int step = s.n == 2 ? j / 16 : 0;
  const float code = static_cast<float>(codes[j]);
  return s.has_min ? __fmaf_rn(code, s.sw[step], -s.mw[step]) : code * s.sw[step];
}

// Few rows: kParts threads share a block of 32 and also a copy each.
template <int kParts>
__global__ void embed_few(EmbedParams a) {
  begin_early();
  constexpr int kValues = 32 / kParts;
  const int64_t n = a.w.cols / 32, at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t unit = at / kParts / a.copies;
  if (unit >= a.n * n) return;
  const int64_t i = unit / n, b = unit % n, copy = at / kParts % a.copies;
  const int first = static_cast<int>(at % kParts) * kValues;
  int8_t codes[32];
  Steps s;
  unpack_view(a.w, a.w.data, a.ids[i], b, codes, &s);
  float* y = a.y + (i * a.copies + copy) * a.w.cols + b * 32;
  for (int j = first; j < first + kValues; ++j) y[j] = value_of(codes, s, j);
}

// A thread decodes a block of 32, a warp writes it to every copy.
constexpr int kManyThreads = 64;
__global__ void __launch_bounds__(kManyThreads) embed_many(EmbedParams a) {
  __shared__ float values[kManyThreads][33];
  begin_early();
  const int64_t n = a.w.cols / 32, unit0 = int64_t{blockIdx.x} * kManyThreads, units = a.n * n;
  const int tid = static_cast<int>(threadIdx.x);
  if (unit0 + tid < units) {
    int8_t codes[32];
    Steps s;
    unpack_view(a.w, a.w.data, a.ids[(unit0 + tid) / n], (unit0 + tid) % n, codes, &s);
    for (int j = 0; j < 32; ++j) values[tid][j] = value_of(codes, s, j);
  }
  __syncthreads();
  for (int k = warp_id(); k < kManyThreads && unit0 + k < units; k += kManyThreads / 32) {
    const int64_t i = (unit0 + k) / n, b = (unit0 + k) % n;
    float* y = a.y + i * a.copies * a.w.cols + b * 32 + lane_id();
    const float v = values[k][lane_id()];
    for (int64_t c = 0; c < a.copies; ++c) y[c * a.w.cols] = v;
  }
}

__global__ void embed_floats(EmbedParams a) {
  begin_early();
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= a.n * a.w.cols) return;
  const int64_t i = at / a.w.cols, k = at % a.w.cols;
  const float v = load_float(a.w.type, a.w.data + a.ids[i] * a.w.row_bytes, k);
  for (int64_t c = 0; c < a.copies; ++c) a.y[(i * a.copies + c) * a.w.cols + k] = v;
}

}  // namespace

void run(Queue& queue, const ops::EmbedArgs& a, const WeightView& w) {
  const EmbedParams p{w, a.ids, a.y, a.n, a.copies};
  if (a.n == 0) return;
  if (is_plain_float(w.type)) {
    queue.launch_early(embed_floats, blocks_for(a.n * w.cols, 256), 256, 0, p);
  } else if (const int64_t blocks = a.n * (w.cols / 32); blocks < 1024) {
    queue.launch_early(embed_few<8>, blocks_for(blocks * 8 * a.copies, 64), 64, 0, p);
  } else {
    queue.launch_early(embed_many, blocks_for(blocks, kManyThreads), kManyThreads, 0, p);
  }
}

}  // namespace argon::cuda
