// Puts a matrix of 2-byte-aligned blocks into planes of codes and scales (cuda/weights.h), and dispatches the
// matrix products.
#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"

namespace argon::cuda {
namespace {

// Blocks first .. first+blocks-1 of all matrices in order; `from` holds them alone.
struct SplitParams {
  WeightView w;
  int64_t first, blocks;
  const uint8_t* from;
};

// A thread per block of 32; both layouts are read and written as 2-byte words.
__global__ void split_blocks(SplitParams p) {
  const int64_t n = p.w.cols / 32, per_matrix = p.w.rows * n;
  const int64_t i0 = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i0 >= p.blocks) return;
  const int64_t at = p.first + i0, e = at / per_matrix, b = at % per_matrix, first_e = p.first / per_matrix;
  const int words = p.w.code_bytes / 2;
  // Between matrices of the copy lies what lies between those of the file.
  const int64_t skipped = (e - first_e) * (p.w.matrix_bytes - per_matrix * (p.w.code_bytes + 2));
  const auto* from = reinterpret_cast<const uint16_t*>(p.from + skipped) + i0 * (words + 1);
  auto* base = const_cast<uint8_t*>(p.w.data) + e * p.w.matrix_bytes;
  reinterpret_cast<uint16_t*>(base + p.w.scales)[b] = from[0];
  auto* codes = reinterpret_cast<uint16_t*>(base) + b * words;
  for (int i = 0; i < words; ++i) codes[i] = from[1 + i];
}

void dispatch(Queue& queue, const MatmulParams& p) {
  if (p.T == 0 || p.w.rows == 0) return;
  if (!matmul_prompt(queue, p) && !matmul_row(queue, &p, 1) && !matmul_step(queue, p))
    matmul_general(queue, p);
}

MatmulParams params(const ops::MatmulArgs& a, const WeightView& w) {
  return {w, a.x, a.q, a.y, a.T, a.ldy, nullptr, nullptr, 1};
}
MatmulParams params(const ops::MatmulGroupedArgs& a, const WeightView& w) {
  return {w, a.x, a.q, a.y, a.S, w.rows, a.expert_begin, a.slot_row, a.w.experts};
}

}  // namespace

void split_weights(Queue& queue, const WeightView& w, int64_t first, int64_t blocks, const uint8_t* copy) {
  const SplitParams p{w, first, blocks, copy};
  queue.launch(split_blocks, blocks_for(blocks, 256), 256, 0, p);
}

void run(Queue& queue, const ops::MatmulArgs& a, const WeightView& w) { dispatch(queue, params(a, w)); }

void run(Queue& queue, const ops::MatmulGroupedArgs& a, const WeightView& w) {
  dispatch(queue, params(a, w));
}

bool products(Queue& queue, const ops::MatmulArgs* a, const WeightView* w, int count) {
  MatmulParams p[8];
  if (count > 8) return false;
  for (int i = 0; i < count; ++i) {
    if (a[i].T != a[0].T) return false;
    p[i] = params(a[i], w[i]);
  }
  if (a[0].T == 1) return matmul_row(queue, p, count);
  // Quantised ones, then floats of more than a few rows, each together where a kernel takes them.
  auto* const quantized =
      std::stable_partition(p, p + count, [](const MatmulParams& one) { return one.w.split; });
  auto* const floats = std::stable_partition(quantized, p + count, [](const MatmulParams& one) {
    return one.w.type == WeightType::kF32 && one.w.rows >= 16;
  });
  const auto each = [&](const MatmulParams* from, const MatmulParams* to) {
    for (; from != to; ++from) dispatch(queue, *from);
  };
  if (!queue.uses_groups() || !matmul_groups(queue, p, static_cast<int>(quantized - p))) each(p, quantized);
  if (!matmul_floats(queue, quantized, static_cast<int>(floats - quantized))) each(quantized, floats);
  each(floats, p + count);
  return true;
}

bool grouped_pair(Queue& queue, const ops::MatmulGroupedArgs (&a)[2], const WeightView (&w)[2]) {
  // With more slots the prompt kernels are better (matmul_prompt.cu).
  if (2 * a[0].S >= a[0].w.experts) return false;
  const MatmulParams p[] = {params(a[0], w[0]), params(a[1], w[1])};
  return matmul_row(queue, p, 2);
}

bool gated_down(Queue& queue, const ops::SwigluArgs& act, const ops::MatmulGroupedArgs& down,
                const WeightView& w, const ops::SwigluArgs& shared_act, const ops::MatmulArgs& shared_down,
                const WeightView& shared) {
  if (shared_down.T != 1 || down.x != act.h || shared_down.x != shared_act.h) return false;
  return matmul_gated(queue, {params(down, w), params(shared_down, shared)}, {act.g, shared_act.g},
                      {act.u, shared_act.u});
}

}  // namespace argon::cuda
