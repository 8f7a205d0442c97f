// Products with one row of x: a step's dense matrices (several with the same input in one launch) and the
// experts' slots. What bounds them is reading the weights, so a block takes a tile of rows of about 20 KB
// that lies in one piece, its threads load 16 bytes each, all loads at once and, for constant weights, before
// the kernel before this one is done.
//
// Integer codes: each load's dot with x is exact in any order and goes to shared memory; then a thread per
// row and segment of the contract adds its blocks in order. Floats: warp w of a block holds the w-th eighth
// of the terms of the 32 chains of sum32 in registers, and the chains' values go from warp to warp.
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/row_dots.cuh"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 768;  // blocks of 32 in a tile of a type with codes
constexpr int kMaxRows = 64;     // of a tile
constexpr int kMaxProducts = 8;  // of a launch
constexpr int kMaxGated = 1024;  // K of a gated input
constexpr int kFloatTerms = 10, kWideTerms = 40, kFloatRows = 4;

enum class Kind : int32_t { kQ8_0, kQ4_0, kIQ4_NL, kQ4_K, kF32, kWideF32 };

struct Product {
  const uint8_t* data;
  float* y;
  int64_t scales;        // split types: where they begin in a matrix
  int64_t matrix_bytes;  // from one expert to the next
  int32_t rows, tile, first_block;
  Kind kind;
  bool early;          // the weights may be read before earlier kernels are done
  const float *g, *u;  // gated: the input is silu(g)*u
};

struct RowParams {
  Product product[kMaxProducts];
  int32_t products, K;
  const float* x;
  ops::QuantizedRows q;
  const int32_t* expert_begin;  // grouped: blockIdx.y is the slot
  const int32_t* slot_row;
  int32_t experts;
  int32_t slots;  // gated: product 0 is grouped and takes blockIdx.y below it, product 1 the last
};

struct Tile {
  int partial[2 * kMaxBlocks];  // dots: of half blocks, or (one a block) of blocks
  float2 step[kMaxBlocks];      // sw*d and, for types with a minimum, -(mw*d)
  float sums[kMaxBlocks];       // of a block of x
  int4 head[kMaxBlocks / 8];    // Q4_K
  int expert;
};

// The expert that holds this block's slot; every thread gets it. All bounds are loaded at once.
__device__ inline int find_expert(const RowParams& p, int* shared) {
  const int slot = static_cast<int>(blockIdx.y);
#pragma unroll 2
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += kThreads) {
    if (p.expert_begin[e] <= slot && slot < p.expert_begin[e + 1]) *shared = e;
  }
  __syncthreads();
  return *shared;
}

// The gated activation of a row, quantised by the block that multiplies with it.
struct GatedInput {
  int8_t codes[kMaxGated];
  int16_t sums[kMaxGated / 16];
  float d[kMaxGated / 32];
};
__device__ inline void gate_row(const float* g, const float* u, int n, GatedInput& in) {
  const ops::QuantizedRows q{in.codes, in.d, in.sums};
  for (int b = warp_id(); b < n; b += kThreads / 32) {
    quantize32(silu32(g[b * 32 + lane_id()]) * u[b * 32 + lane_id()], q, b);
  }
  __syncthreads();
}

// `gated`: where the input is made, or null.
template <class Format>
__device__ void code_rows(const RowParams& p, const Product& product, int row0, Tile& s, GatedInput* gated) {
  constexpr int kLoads = (kMaxBlocks * Format::kEighths / 8 + kThreads - 1) / kThreads;
  constexpr int kSteps = kMaxBlocks / kThreads;
  const int tid = static_cast<int>(threadIdx.x), n = p.K / 32, pieces = n * Format::kEighths / 8;
  const int rows = min(product.tile, product.rows - row0), total = rows * pieces, blocks = rows * n;
  const bool grouped =
      p.expert_begin != nullptr && (gated == nullptr || static_cast<int>(blockIdx.y) < p.slots);
  const bool early = product.early && !grouped;
  const uint8_t* data = product.data;
  if (!early) {
    wait_for_earlier();
    if (grouped) data += find_expert(p, &s.expert) * product.matrix_bytes;
  }
  const auto* codes = reinterpret_cast<const int4*>(data) + int64_t{row0} * pieces;
  const auto* scales = reinterpret_cast<const uint16_t*>(data + product.scales) + int64_t{row0} * n;
  int4 w[kLoads];
  uint16_t scale[kSteps];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (tid + i * kThreads < total) w[i] = __ldcs(codes + tid + i * kThreads);
  }
  if constexpr (!Format::kMin) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (tid + i * kThreads < blocks) scale[i] = __ldcs(scales + tid + i * kThreads);
    }
  }
  const int turn = kThreads % pieces, turn_n = kThreads % n;
  int at = tid % pieces, block = tid % n;
  if (early) wait_for_earlier();
  const int64_t row = !grouped ? 0 : p.slot_row != nullptr ? p.slot_row[blockIdx.y] : blockIdx.y;
  const int8_t* x = p.q.codes + row * p.K;
  const float* d = p.q.d + row * n;
  const auto* sums = reinterpret_cast<const int*>(p.q.sums + row * 2 * n);
  if (gated != nullptr) {
    gate_row(product.g + row * p.K, product.u + row * p.K, n, *gated);
    x = gated->codes;
    d = gated->d;
    sums = reinterpret_cast<const int*>(gated->sums);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (tid + i * kThreads < total) Format::dots(s.partial, s.head, w[i], tid + i * kThreads, at, x);
    at += turn;
    if (at >= pieces) at -= pieces;
  }
  if constexpr (Format::kMin) {
    for (int b = tid; b < n; b += kThreads) {
      s.sums[b] = static_cast<float>(static_cast<int16_t>(sums[b]) + (sums[b] >> 16));
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int b = tid + i * kThreads;
    if (b < blocks) {
      const float db = d[block];
      if constexpr (Format::kMin) {
        const Scale sc = Format::scale(s.head, b);
        s.step[b] = {sc.sw * db, -(sc.mw * db)};
      } else {
        reinterpret_cast<float*>(s.step)[b] = __half2float(__ushort_as_half(scale[i])) * db;
      }
    }
    block += turn_n;
    if (block >= n) block -= n;
  }
  __syncthreads();
  float* y = product.y + (grouped ? int64_t{blockIdx.y} * product.rows : 0) + row0;
  for (int first = 0; first < rows * 8; first += kThreads) {
    const int r = (first + tid) / 8, segment = tid % 8;
    if (first + tid - lane_id() >= rows * 8) break;  // the whole warp
    float acc = 0.0f;
    if (r < rows) {
      const int end = segment_start(n, segment + 1);
#pragma unroll 5
      for (int b = segment_start(n, segment); b < end; ++b) {
        const int i = r * n + b;
        int dot;
        if constexpr (Format::kHalves) {
          const int2 halves = reinterpret_cast<const int2*>(s.partial)[i];
          dot = halves.x + halves.y;
        } else {
          dot = s.partial[i];
        }
        if constexpr (Format::kMin) {
          const float2 step = s.step[i];
          acc = __fmaf_rn(step.x, static_cast<float>(dot), acc);
          acc = __fmaf_rn(step.y, s.sums[b], acc);
        } else {
          acc = __fmaf_rn(reinterpret_cast<const float*>(s.step)[i], static_cast<float>(dot), acc);
        }
      }
    }
    const float sum = join_segments(acc, lane_id() & ~7);
    if (segment == 0 && r < rows) y[r] = sum;
  }
}

// K a multiple of 256, at most 256*kTerms.
template <int kRows, int kTerms>
__device__ void float_rows(const RowParams& p, const Product& product, int row0, float* chains) {
  const int lane = lane_id(), warp = warp_id(), terms = p.K / kThreads;
  const int rows = min(product.tile, product.rows - row0);
  if (!product.early) wait_for_earlier();
  const int64_t first = int64_t{warp} * terms * 32 + lane;
  const float* weights = reinterpret_cast<const float*>(product.data) + int64_t{row0} * p.K + first;
  float w[kRows][kTerms], x[kTerms], acc[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      w[r][i] = r < rows && i < terms ? __ldcs(weights + int64_t{r} * p.K + i * 32) : 0.0f;
    }
  }
  if (product.early) wait_for_earlier();
#pragma unroll
  for (int i = 0; i < kTerms; ++i) x[i] = i < terms ? p.x[first + i * 32] : 0.0f;
  for (int turn = 0; turn < 8; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) acc[r] = turn == 0 ? 0.0f : chains[r * 32 + lane];
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        if (i < terms) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) acc[r] = __fmaf_rn(w[r][i], x[i], acc[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) chains[r * 32 + lane] = acc[r];
    }
    __syncthreads();
  }
  if (warp < rows) {
    const float y = fold32(chains[warp * 32 + lane]);
    if (lane == 0) product.y[row0 + warp] = y;
  }
}

// One of the types with codes.
__device__ inline void any_codes(const RowParams& p, const Product& product, int row0, Tile& s,
                                 GatedInput* gated) {
  switch (product.kind) {
    case Kind::kQ8_0:
      return code_rows<RowQ8_0>(p, product, row0, s, gated);
    case Kind::kQ4_0:
      return code_rows<RowQ4_0>(p, product, row0, s, gated);
    case Kind::kIQ4_NL:
      return code_rows<RowIQ4_NL>(p, product, row0, s, gated);
    case Kind::kQ4_K:
      return code_rows<RowQ4_K>(p, product, row0, s, gated);
    default:
      return;
  }
}

// kWide: also rows of floats longer than 256*kFloatTerms, which take more registers.
template <bool kWide>
__global__ void __launch_bounds__(kThreads, kWide ? 2 : 4) row_products(RowParams p) {
  __shared__ __align__(16) Tile s;
  start_dependents();
  int which = 0;
  while (which + 1 < p.products && static_cast<int>(blockIdx.x) >= p.product[which + 1].first_block) ++which;
  const Product& product = p.product[which];
  const int row0 = (static_cast<int>(blockIdx.x) - product.first_block) * product.tile;
  if (product.kind == Kind::kF32) {
    return float_rows<kFloatRows, kFloatTerms>(p, product, row0, reinterpret_cast<float*>(s.partial));
  }
  if constexpr (kWide) {
    if (product.kind == Kind::kWideF32) {
      return float_rows<1, kWideTerms>(p, product, row0, reinterpret_cast<float*>(s.partial));
    }
  }
  any_codes(p, product, row0, s, nullptr);
}

// The experts' down products and the shared expert's, each block making its input of g and u.
__global__ void __launch_bounds__(kThreads, 4) gated_products(RowParams p) {
  __shared__ __align__(16) Tile s;
  __shared__ __align__(16) GatedInput gated;
  start_dependents();
  const Product& product = p.product[static_cast<int>(blockIdx.y) < p.slots ? 0 : 1];
  const int row0 = static_cast<int>(blockIdx.x) * product.tile;
  if (row0 >= product.rows) return wait_for_earlier();
  any_codes(p, product, row0, s, &gated);
}

bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Fills in what the kernel must know of a matrix; false for those it does not take.
bool describe(const MatmulParams& a, Product* p) {
  const WeightView& w = a.w;
  const bool grouped = a.expert_begin != nullptr;
  const int64_t n = w.cols / 32;
  if (!aligned16(w.data) || w.rows > (1 << 30) || w.rows == 0) return false;
  *p = {w.data,     a.y,        w.scales, w.matrix_bytes, static_cast<int32_t>(w.rows), 1, 0,
        Kind::kF32, w.constant, nullptr,  nullptr};
  if (w.type == WeightType::kF32) {
    if (grouped || w.cols % kThreads != 0 || w.cols > kThreads * kWideTerms || w.cols == 0 ||
        w.row_bytes != w.cols * 4) {
      return false;
    }
    const bool wide = w.cols > kThreads * kFloatTerms;
    p->kind = wide ? Kind::kWideF32 : Kind::kF32;
    p->tile = wide ? 1 : kFloatRows;
    return true;
  }
  if (w.cols % 32 != 0 || n == 0 || n > kMaxBlocks || !aligned16(a.q.codes) || w.matrix_bytes % 16 != 0 ||
      reinterpret_cast<uintptr_t>(a.q.sums) % 4 != 0) {
    return false;
  }
  switch (w.type) {
    case WeightType::kQ8_0:
      p->kind = Kind::kQ8_0;
      break;
    case WeightType::kQ4_0:
      p->kind = Kind::kQ4_0;
      break;
    case WeightType::kIQ4_NL:
      p->kind = Kind::kIQ4_NL;
      break;
    case WeightType::kQ4_K:
      p->kind = Kind::kQ4_K;
      break;
    default:
      return false;
  }
  if (w.type == WeightType::kQ4_K ? n % 8 != 0 || w.row_bytes != n / 8 * 144 : !w.split) return false;
  // About 20 KB of 8-bit codes; rows come in eights where they are short.
  const int64_t most = 640 / n;
  p->tile = static_cast<int32_t>(most < 1                  ? 1
                                 : most < 8                ? most
                                 : most / 8 * 8 < kMaxRows ? most / 8 * 8
                                                           : kMaxRows);
  return true;
}

}  // namespace

bool matmul_row(Queue& queue, const MatmulParams* a, int count) {
  if (count < 1 || count > kMaxProducts) return false;
  RowParams p{};
  bool wide = false;
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    Product& product = p.product[i];
    if (a[i].w.cols != a[0].w.cols || (a[i].T != 1 && a[i].expert_begin == nullptr) ||
        !describe(a[i], &product)) {
      return false;
    }
    product.first_block = static_cast<int32_t>(blocks);
    blocks += blocks_for(product.rows, product.tile);
    wide = wide || product.kind == Kind::kWideF32;
  }
  p.products = count;
  p.K = static_cast<int32_t>(a[0].w.cols);
  p.x = a[0].x;
  p.q = a[0].q;
  p.expert_begin = a[0].expert_begin;
  p.slot_row = a[0].slot_row;
  p.experts = static_cast<int32_t>(a[0].experts);
  const unsigned slots = a[0].expert_begin != nullptr ? static_cast<unsigned>(a[0].T) : 1;
  queue.launch_early(wide ? row_products<true> : row_products<false>,
                     dim3(static_cast<unsigned>(blocks), slots), kThreads, 0, p);
  return true;
}

bool matmul_gated(Queue& queue, const MatmulParams (&a)[2], const float* const (&g)[2],
                  const float* const (&u)[2]) {
  RowParams p{};
  for (int i = 0; i < 2; ++i) {
    if (!describe(a[i], &p.product[i])) return false;
    if (p.product[i].kind == Kind::kF32 || p.product[i].kind == Kind::kWideF32) return false;
    p.product[i].g = g[i];
    p.product[i].u = u[i];
  }
  const int64_t K = a[0].w.cols;
  if (a[1].w.cols != K || K > kMaxGated || a[0].expert_begin == nullptr || a[0].slot_row != nullptr ||
      a[1].expert_begin != nullptr || a[1].T != 1) {
    return false;
  }
  p.products = 2;
  p.K = static_cast<int32_t>(K);
  p.expert_begin = a[0].expert_begin;
  p.experts = static_cast<int32_t>(a[0].experts);
  p.slots = static_cast<int32_t>(a[0].T);
  const unsigned tiles[] = {blocks_for(p.product[0].rows, p.product[0].tile),
                            blocks_for(p.product[1].rows, p.product[1].tile)};
  queue.launch_early(gated_products,
                     dim3(tiles[0] > tiles[1] ? tiles[0] : tiles[1], static_cast<unsigned>(a[0].T) + 1),
                     kThreads, 0, p);
  return true;
}

}  // namespace argon::cuda
