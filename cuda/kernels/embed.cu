// Row look-up: a thread takes 32 values of a row (or one value of a float row) and writes every copy.
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

// kParts threads share a block of 32 and kParts > 1 also a copy each.
template <int kParts>
__global__ void embed_codes(EmbedParams a) {
  begin_early();
  constexpr int kValues = 32 / kParts;
  const int64_t n = a.w.cols / 32, at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t copies = kParts > 1 ? a.copies : 1, unit = at / kParts / copies;
  if (unit >= a.n * n) return;
  const int64_t i = unit / n, b = unit % n, copy0 = at / kParts % copies;
  const int first = static_cast<int>(at % kParts) * kValues;
  int8_t codes[32];
  Steps s;
  unpack_view(a.w, a.w.data, a.ids[i], b, codes, &s);
  float* y = a.y + i * a.copies * a.w.cols + b * 32;
  for (int j = first; j < first + kValues; ++j) {
    const int step = s.n == 2 ? j / 16 : 0;
    const float code = static_cast<float>(codes[j]);
    const float v = s.has_min ? __fmaf_rn(code, s.sw[step], -s.mw[step]) : code * s.sw[step];
    if constexpr (kParts > 1) {
      y[copy0 * a.w.cols + j] = v;
    } else {
      for (int64_t c = 0; c < a.copies; ++c) y[c * a.w.cols + j] = v;
    }
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
    queue.launch_early(embed_codes<8>, blocks_for(blocks * 8 * a.copies, 64), 64, 0, p);
  } else {
    queue.launch_early(embed_codes<1>, blocks_for(blocks, 64), 64, 0, p);
  }
}

}  // namespace argon::cuda
