// Products with one row of x: a step's dense matrices (several with the same input in one launch) and the
// experts' slots. What bounds them is reading the weights, so a block takes a tile of rows of about 20 KB
// that lies in one piece, its threads load 16 bytes each, all loads at once and, for constant weights, before
// the kernel before this one is done.
//
// A block takes tiles in turn. Integer codes: each load's dot with x is exact in any order and goes to shared
// memory; then a thread per row and segment of the contract adds its blocks in order. Floats: warp w of a
// block holds the w-th eighth of the terms of the 32 chains of sum32 in registers, and the chains' values go
// from warp to warp.
#include "cuda/kernels/matmul.cuh"
#include "cuda/kernels/row_dots.cuh"

namespace argon::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 768;  // blocks of 32 in a tile of a type with codes
constexpr int kMaxRows = 64;     // of a tile
constexpr int kMaxProducts = 8;  // of a launch
constexpr int kMaxSlots = 256;
constexpr int kMaxGated = 1024;  // K of a gated input
constexpr int kFloatTerms = 10, kWideTerms = 40, kFloatRows = 4;

enum class Kind : int32_t { kQ8_0, kQ4_0, kIQ4_NL, kQ4_K, kF32, kWideF32 };

struct Product {
  const uint8_t* data;
  float* y;
  int64_t scales;        // split types: where they begin in a matrix
  int64_t matrix_bytes;  // from one expert to the next
  const float *g, *u;    // gated: the input is silu(g)*u
  int32_t rows, tile;
  int32_t tiles;              // of a slot
  int32_t first_tile, slots;  // among all tiles of the launch; 0 slots: dense
  Kind kind;
  bool early;  // the weights may be read before earlier kernels are done
};

struct RowParams {
  Product product[kMaxProducts];
  int32_t products, K, tiles;
  const float* x;
  ops::QuantizedRows q;
  const int32_t* expert_begin;  // grouped
  const int32_t* slot_row;
  int32_t experts;
};

struct Tile {
  int partial[2 * kMaxBlocks];  // dots: of half blocks, or (one a block) of blocks
  float2 step[kMaxBlocks];      // sw*d and, for types with a minimum, -(mw*d)
  float sums[kMaxBlocks];       // of a block of x
  int4 head[kMaxBlocks / 8];    // Q4_K
  int32_t expert[kMaxSlots];
};

// Which expert holds each slot. All bounds are loaded at once; the caller synchronises.
__device__ inline void find_experts(const RowParams& p, int32_t* expert) {
#pragma unroll 2
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += kThreads) {
    const int begin = p.expert_begin[e], end = p.expert_begin[e + 1];
    for (int slot = begin; slot < end; ++slot) expert[slot] = e;
  }
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

// This block's tiles of a product from tile t on; the first tile of the next product, or past the last. A
// tile's weights are on their way while the tile before it is added up. `gated`: where the input is made, or
// null.
template <class Format>
__device__ int code_rows(const RowParams& p, const Product& product, int t, Tile& s, GatedInput* gated) {
  constexpr int kLoads = (kMaxBlocks * Format::kEighths / 8 + kThreads - 1) / kThreads;
  constexpr int kSteps = kMaxBlocks / kThreads;
  const int tid = static_cast<int>(threadIdx.x), n = p.K / 32, pieces = n * Format::kEighths / 8;
  const bool grouped = product.slots > 0;
  const int end_tile = product.first_tile + product.tiles * (grouped ? product.slots : 1);
  int slot = 0, row0 = 0, rows = 0;
  int4 w[kLoads];
  uint16_t scale[kSteps];
  const auto load = [&](int tile) {
    const int local = tile - product.first_tile;
    slot = grouped ? local / product.tiles : 0;
    row0 = (local - slot * product.tiles) * product.tile;
    rows = min(product.tile, product.rows - row0);
    const uint8_t* data = product.data;
    if (grouped) data += s.expert[slot] * product.matrix_bytes;
    const auto* codes = reinterpret_cast<const int4*>(data) + int64_t{row0} * pieces;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (tid + i * kThreads < rows * pieces) w[i] = __ldcs(codes + tid + i * kThreads);
    }
    if constexpr (!Format::kMin) {
      const auto* scales = reinterpret_cast<const uint16_t*>(data + product.scales) + int64_t{row0} * n;
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (tid + i * kThreads < rows * n) scale[i] = __ldcs(scales + tid + i * kThreads);
      }
    }
  };
  const bool early = product.early && !grouped;
  if (!early) {
    wait_for_earlier();
    if (grouped) {
      find_experts(p, s.expert);
      __syncthreads();
    }
  }
  load(t);
  const int turn = kThreads % pieces, turn_n = kThreads % n, at0 = tid % pieces, block0 = tid % n;
  if (early) wait_for_earlier();
  while (true) {
    const int64_t row = !grouped ? 0 : p.slot_row != nullptr ? p.slot_row[slot] : slot;
    const int8_t* x = p.q.codes + row * p.K;
    const float* d = p.q.d + row * n;
    const auto* sums = reinterpret_cast<const int*>(p.q.sums + row * 2 * n);
    if (gated != nullptr) {
      gate_row(product.g + row * p.K, product.u + row * p.K, n, *gated);
      x = gated->codes;
      d = gated->d;
      sums = reinterpret_cast<const int*>(gated->sums);
    }
    int at = at0, block = block0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int c = tid + i * kThreads;
      if (c < rows * pieces) Format::dots(s.partial, s.head, w[i], c, at, x);
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
      if (b < rows * n) {
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
    const int done_rows = rows;
    float* y = product.y + int64_t{slot} * product.rows + row0;
    t += static_cast<int>(gridDim.x);
    const bool more = t < end_tile;
    if (more) load(t);
    __syncthreads();
    for (int first = 0; first < done_rows * 8; first += kThreads) {
      const int r = (first + tid) / 8, segment = tid % 8;
      if (first + tid - lane_id() >= done_rows * 8) break;  // the whole warp
      float acc = 0.0f;
      if (r < done_rows) {
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
      if (segment == 0 && r < done_rows) y[r] = sum;
    }
    __syncthreads();
    if (!more) return t;
  }
}

// K a multiple of 256, at most 256*kTerms.
template <int kRows, int kTerms>
__device__ int float_rows(const RowParams& p, const Product& product, int t, float* chains) {
  const int row0 = (t - product.first_tile) * product.tile;
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
  __syncthreads();
  return t + static_cast<int>(gridDim.x);
}

// kWide: also rows of floats longer than 256*kFloatTerms, which take more registers. kGated: inputs are made
// of g and u.
template <bool kWide, bool kGated>
__global__ void __launch_bounds__(kThreads, kWide ? 2 : 4) row_products(RowParams p) {
  __shared__ __align__(16) Tile s;
  GatedInput* gated = nullptr;
  if constexpr (kGated) {
    __shared__ __align__(16) GatedInput made;
    gated = &made;
  }
  start_dependents();
  int t = static_cast<int>(blockIdx.x), which = 0;
  while (t < p.tiles) {
    while (which + 1 < p.products && t >= p.product[which + 1].first_tile) ++which;
    const Product& product = p.product[which];
    switch (product.kind) {
      case Kind::kQ8_0:
        t = code_rows<RowQ8_0>(p, product, t, s, gated);
        break;
      case Kind::kQ4_0:
        t = code_rows<RowQ4_0>(p, product, t, s, gated);
        break;
      case Kind::kIQ4_NL:
        t = code_rows<RowIQ4_NL>(p, product, t, s, gated);
        break;
      case Kind::kQ4_K:
        t = code_rows<RowQ4_K>(p, product, t, s, gated);
        break;
      case Kind::kF32:
        t = float_rows<kFloatRows, kFloatTerms>(p, product, t, reinterpret_cast<float*>(s.partial));
        break;
      case Kind::kWideF32:
        if constexpr (kWide) {
          t = float_rows<1, kWideTerms>(p, product, t, reinterpret_cast<float*>(s.partial));
        }
        break;
    }
  }
}

bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Fills in what the kernel must know of a matrix; false for those it does not take.
bool describe(const MatmulParams& a, Product* p) {
  const WeightView& w = a.w;
  const bool grouped = a.expert_begin != nullptr;
  const int64_t n = w.cols / 32;
  if (!aligned16(w.data) || w.rows > (1 << 30) || w.rows == 0) return false;
  if (grouped && a.T > kMaxSlots) return false;
  *p = Product{};
  p->data = w.data;
  p->y = a.y;
  p->scales = w.scales;
  p->matrix_bytes = w.matrix_bytes;
  p->rows = static_cast<int32_t>(w.rows);
  p->tile = 1;
  p->slots = grouped ? static_cast<int32_t>(a.T) : 0;
  p->kind = Kind::kF32;
  p->early = w.constant;
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

// Lays the tiles of all products one after another and starts as many blocks as stay on the device; some room
// is left for the blocks of the next kernel, which load their first weights there.
void launch(Queue& queue, RowParams& p, const MatmulParams* a, int count, bool gated) {
  bool wide = false;
  p.products = count;
  p.K = static_cast<int32_t>(a[0].w.cols);
  p.x = a[0].x;
  p.q = a[0].q;
  p.expert_begin = a[0].expert_begin;
  p.slot_row = a[0].slot_row;
  p.experts = static_cast<int32_t>(a[0].experts);
  for (int i = 0; i < count; ++i) {
    Product& product = p.product[i];
    product.first_tile = p.tiles;
    product.tiles = static_cast<int32_t>(blocks_for(product.rows, product.tile));
    p.tiles += product.tiles * (product.slots > 0 ? product.slots : 1);
    wide = wide || product.kind == Kind::kWideF32;
  }
  const int most = queue.processors() * (wide ? 2 : 3);
  const auto kernel = gated  ? row_products<false, true>
                      : wide ? row_products<true, false>
                             : row_products<false, false>;
  queue.launch_early(kernel, static_cast<unsigned>(p.tiles < most ? p.tiles : most), kThreads, 0, p);
}

}  // namespace

bool matmul_row(Queue& queue, const MatmulParams* a, int count) {
  if (count < 1 || count > kMaxProducts) return false;
  RowParams p{};
  for (int i = 0; i < count; ++i) {
    if (a[i].w.cols != a[0].w.cols || (a[i].T != 1 && a[i].expert_begin == nullptr) ||
        !describe(a[i], &p.product[i])) {
      return false;
    }
  }
  launch(queue, p, a, count, false);
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
  launch(queue, p, a, 2, true);
  return true;
}

}  // namespace argon::cuda
