// The rest of a mixer for one token: gate, up product and mix in one kernel. A block takes 32 columns of h,
// which are four runs of 32 rows of W_up (one a stream), 40 KB at the model's sizes; every block makes the
// gated low-rank row itself.
#include "cuda/kernels.h"
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/row_dots.cuh"

namespace argon::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr int kStreams = 4, kRows = 32 * kStreams;
constexpr int kMaxN = 16;  // blocks of 32 in a row of W_up
constexpr int kLoads = kRows * kMaxN * 2 / kThreads, kScales = kRows * kMaxN / kThreads;

struct MixedParams {
  ops::GrGateArgs gate;
  ops::GrMixArgs mix;
  const uint8_t* up;
  int64_t scales;
  int32_t n;
  bool early;
};

__global__ void __launch_bounds__(kThreads) mixer_rest(MixedParams p) {
  __shared__ __align__(16) int partial[kRows * kMaxN * 2];
  __shared__ float step[kRows * kMaxN], up[kRows], d[kMaxN];
  __shared__ __align__(16) int8_t codes[kMaxN * 32];
  __shared__ int16_t sums[kMaxN * 2];
  start_dependents();
  const int tid = static_cast<int>(threadIdx.x), lane = lane_id(), n = p.n, pieces = 2 * n;
  const int k0 = static_cast<int>(blockIdx.x) * 32, H = static_cast<int>(p.mix.H);
  if (!p.early) wait_for_earlier();
  // Piece c of the block: stream c / (32*pieces).
  int4 w[kLoads];
  uint16_t scale[kScales];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int c = tid + i * kThreads;
    if (c < kRows * pieces) {
      const int stream = c / (32 * pieces);
      w[i] = load16(p.up + (int64_t{stream * H + k0} * pieces + c - stream * 32 * pieces) * 16);
    }
  }
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    const int b = tid + i * kThreads;
    if (b < kRows * n) {
      const int stream = b / (32 * n);
      scale[i] = __ldg(reinterpret_cast<const uint16_t*>(p.up + p.scales) + int64_t{stream * H + k0} * n + b -
                       stream * 32 * n);
    }
  }
  if (p.early) wait_for_earlier();
  const float inv_c = __fdiv_rn(1.0f, static_cast<float>(kStreams));
  float streams[kStreams];
  if (tid < 32) {
#pragma unroll
    for (int c = 0; c < kStreams; ++c) streams[c] = p.mix.n[c * H + k0 + lane];
  }
  for (int b = warp_id(); b < n; b += kWarps) {
    quantize32(silu32(p.gate.lo[b * 32 + lane] * inv_c), {codes, d, sums}, b);
  }
  if (p.gate.inj != nullptr && blockIdx.x == 0 && tid < kStreams) p.gate.inj[tid] = p.gate.inj[tid] * inv_c;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int c = tid + i * kThreads;
    if (c < kRows * pieces) partial[c] = dot_piece(w[i], load_codes(codes, c % pieces));
  }
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    const int b = tid + i * kThreads;
    if (b < kRows * n) step[b] = __half2float(__ushort_as_half(scale[i])) * d[b % n];
  }
  __syncthreads();
  for (int task = tid; task < kRows * 8; task += kThreads) {
    const int row = task / 8, segment = task % 8, end = segment_start(n, segment + 1);
    float acc = 0.0f;
    for (int b = segment_start(n, segment); b < end; ++b) {
      const int2 halves = reinterpret_cast<const int2*>(partial)[row * n + b];
      acc = __fmaf_rn(step[row * n + b], static_cast<float>(halves.x + halves.y), acc);
    }
    const float y = join_segments(acc, lane & ~7);
    if (segment == 0) up[row] = y;
  }
  __syncthreads();
  if (tid >= 32) return;
  float acc = 0.0f;
#pragma unroll
  for (int c = 0; c < kStreams; ++c) acc = __fmaf_rn(sigmoid32(up[c * 32 + lane]), streams[c], acc);
  const float h = acc * inv_c;
  p.mix.h[k0 + lane] = h;
  if (p.mix.out_q.codes != nullptr) quantize32(h, p.mix.out_q, blockIdx.x);
}

}  // namespace

bool mixed(Queue& queue, const ops::GrGateArgs& gate, const ops::MatmulArgs& up, const WeightView& w,
           const ops::GrMixArgs& mix) {
  const int64_t n = gate.R / 32;
  if (gate.T != 1 || mix.T != 1 || up.T != 1 || gate.C != kStreams || mix.C != kStreams || gate.R % 32 != 0 ||
      mix.H % 32 != 0 || n < 1 || n > kMaxN || w.type != WeightType::kQ8_0 || !w.split || w.cols != gate.R ||
      w.rows != kStreams * mix.H || up.x != gate.lo || mix.up != up.y ||
      reinterpret_cast<uintptr_t>(w.data) % 16 != 0) {
    return false;
  }
  const MixedParams p{gate, mix, w.data, w.scales, static_cast<int32_t>(n), w.constant};
  queue.launch_early(mixer_rest, static_cast<unsigned>(mix.H / 32), kThreads, 0, p);
  return true;
}

}  // namespace argon::cuda
