// Puts a matrix of 2-byte-aligned blocks into planes of codes and scales (cuda/weights.h), and dispatches the
// matrix products.
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

struct SplitParams {
  WeightView w;
  int64_t matrices;
  const uint8_t* from;
};

// A thread per block of 32; both layouts are read and written as 2-byte words.
__global__ void split_blocks(SplitParams p) {
  const int64_t n = p.w.cols / 32, per_matrix = p.w.rows * n;
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= p.matrices * per_matrix) return;
  const int64_t e = at / per_matrix, b = at % per_matrix;
  const int words = p.w.code_bytes / 2;
  const auto* from = reinterpret_cast<const uint16_t*>(p.from + e * p.w.matrix_bytes) + b * (words + 1);
  auto* base = const_cast<uint8_t*>(p.w.data) + e * p.w.matrix_bytes;
  reinterpret_cast<uint16_t*>(base + p.w.scales)[b] = from[0];
  auto* codes = reinterpret_cast<uint16_t*>(base) + b * words;
  for (int i = 0; i < words; ++i) codes[i] = from[1 + i];
}

void dispatch(Queue& queue, const MatmulParams& p) {
  if (p.T == 0 || p.w.rows == 0) return;
  if (!matmul_prompt(queue, p) && !matmul_row(queue, &p, 1) && !matmul_step(queue, p)) matmul_general(queue, p);
}

}  // namespace

void split_weights(Queue& queue, const WeightView& w, int64_t matrices, const uint8_t* copy) {
  const SplitParams p{w, matrices, copy};
  queue.launch(split_blocks, blocks_for(matrices * w.rows * (w.cols / 32), 256), 256, 0, p);
}

void run(Queue& queue, const ops::MatmulArgs& a, const WeightView& w) {
  dispatch(queue, {w, a.x, a.q, a.y, a.T, a.ldy, nullptr, nullptr, 1});
}

void run(Queue& queue, const ops::MatmulGroupedArgs& a, const WeightView& w) {
  dispatch(queue, {w, a.x, a.q, a.y, a.S, w.rows, a.expert_begin, a.slot_row, a.w.experts});
}

}  // namespace argon::cuda
