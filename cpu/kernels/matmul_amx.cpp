// Routes matmul_amx and matmul_grouped_amx: quantised products of many rows on AMX tiles. One tile operation
// is the integer dot of one 32-block (or of its half, where a step has 16 values) for 16 rows of x and 16
// rows of W; the float steps follow in AVX-512, a lane being a row of W. Few rows of x and float weights go
// the AVX-512 way.
#include "cpu/kernels/segment_tile.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int kTileRows = 16;       // rows of x in a tile
constexpr int64_t kFewestRows = 6;  // below, tiles would be mostly empty

// What tile registers 0-7 hold: 0-3 dots (16 x 16 int32), 4-5 codes of x (16 x K), 6-7 codes of W (K/4 x 64),
// K = 32 or 16. Set for this thread while alive.
class TileShapes {
 public:
  explicit TileShapes(int steps) {
    struct {
      uint8_t palette, start_row, reserved[14];
      uint16_t bytes[16];
      uint8_t rows[16];
    } c = {};
    c.palette = 1;
    for (int i = 0; i < 8; ++i) {
      c.bytes[i] = static_cast<uint16_t>(i < 4 || i >= 6 ? 64 : 32 / steps);
      c.rows[i] = static_cast<uint8_t>(i < 6 ? 16 : 8 / steps);
    }
    static_assert(sizeof c == 64);
    asm volatile("" ::: "memory");  // GCC lets stores to c sink below the instruction otherwise
    _tile_loadconfig(&c);
  }
  ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
};

// 16 rows of x and what belongs to them, in one segment: row t at codes + t*codes_stride, and so on.
struct TileInput {
  const int8_t* codes;
  const float* d;
  const int16_t* sums;
  int64_t codes_stride, d_stride, sums_stride;
};

// Copies of rows that do not lie side by side, or are fewer than 16.
struct TileCopy {
  alignas(64) int8_t codes[kTileRows * kMaxSegmentBlocks * 32];
  float d[kTileRows * kMaxSegmentBlocks];
  int16_t sums[kTileRows * kMaxSegmentBlocks * 2];
};

inline TileInput tile_input(const XRows& x, int64_t i, int count, int64_t b0, int64_t n, TileCopy& copy) {
  const auto codes = [&](int64_t row) { return x.q.codes + row * x.K + b0 * 32; };
  const auto d = [&](int64_t row) { return x.q.d + row * (x.K / 32) + b0; };
  const auto sums = [&](int64_t row) { return x.q.sums + row * (x.K / 16) + b0 * 2; };
  if (x.index == nullptr && count == kTileRows) {
    return {codes(i), d(i), sums(i), x.K, x.K / 32, x.K / 16};
  }
  for (int t = 0; t < kTileRows; ++t) {
    const int64_t row = x.row(i + (t < count ? t : count - 1));
    std::memcpy(copy.codes + t * n * 32, codes(row), static_cast<size_t>(n) * 32);
    std::memcpy(copy.d + t * n, d(row), static_cast<size_t>(n) * sizeof(float));
    std::memcpy(copy.sums + t * n * 2, sums(row), static_cast<size_t>(n) * 2 * sizeof(int16_t));
  }
  asm volatile("" ::: "memory");  // tile loads do not say that they read
  return {copy.codes, copy.d, copy.sums, n * 32, n, n * 2};
}

struct alignas(64) Dots {
  int32_t v[kTileRows][16];  // [row of x][row of W]
};

// clang-format off: the intrinsics want literal register numbers
#define ARGON_TILE_DOTS(C, A, B, x, stride, w, out) \
  _tile_loadd(A, x, stride);                        \
  _tile_loadd(B, w, 64);                            \
  _tile_zero(C);                                    \
  _tile_dpbssd(C, A, B);                            \
  _tile_stored(C, out, 64)
// clang-format on

// The dots of a block into out[0..kSteps-1]; neighbouring blocks use different registers.
template <int kSteps>
inline void tile_dots(const int8_t* x, int64_t stride, const int8_t* w, bool odd, Dots* out) {
  if constexpr (kSteps == 1) {
    if (odd) {
      ARGON_TILE_DOTS(1, 5, 7, x, stride, w, out[0].v);
    } else {
      ARGON_TILE_DOTS(0, 4, 6, x, stride, w, out[0].v);
    }
  } else {
    if (odd) {
      ARGON_TILE_DOTS(2, 4, 6, x, stride, w, out[0].v);
      ARGON_TILE_DOTS(3, 5, 7, x + 16, stride, w + 256, out[1].v);
    } else {
      ARGON_TILE_DOTS(0, 4, 6, x, stride, w, out[0].v);
      ARGON_TILE_DOTS(1, 5, 7, x + 16, stride, w + 256, out[1].v);
    }
  }
}

// 16 rows of x times a segment of 16 rows of W. The tile unit works one block ahead of the float steps.
template <int kSteps, bool kHasMin>
inline void segment_sums(const SegmentTile<kSteps, kHasMin>& tile, const TileInput& x, int64_t n,
                         Floats16* acc) {
  Dots dots[2][kSteps];
  for (int t = 0; t < kTileRows; ++t) acc[t] = zero16();
  if (n > 0) tile_dots<kSteps>(x.codes, x.codes_stride, tile.codes, false, dots[0]);
  for (int64_t b = 0; b < n; ++b) {
    if (b + 1 < n) {
      const bool odd = b % 2 == 0;
      tile_dots<kSteps>(x.codes + (b + 1) * 32, x.codes_stride, tile.codes + (b + 1) * 512, odd,
                        dots[odd ? 1 : 0]);
    }
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      const float* d = x.d + b;
      const int16_t* sums = x.sums + 2 * b;
      const int64_t at = (b * kSteps + step) * 16;
#pragma GCC unroll 16
      for (int t = 0; t < kTileRows; ++t) {
        acc[t] = add_step<kSteps, kHasMin>(acc[t], load16(tile.sw + at), tile.mw + at,
                                           load_ints(dots[b % 2][step].v[t]), *d, sums, step);
        d += x.d_stride;
        sums += x.sums_stride;
      }
    }
  }
}

// All rows of x times one segment of 16 rows of W.
template <int kSteps, bool kHasMin>
[[gnu::noinline]] void add_segments(const SegmentTile<kSteps, kHasMin>& tile, int segment, int64_t b0,
                                    int64_t n, const XRows& x, TileCopy& copy, float* y, int64_t stride,
                                    int rows) {
  for (int64_t i = 0; i < x.count; i += kTileRows) {
    const int count = static_cast<int>(std::min<int64_t>(kTileRows, x.count - i));
    Floats16 acc[kTileRows];
    segment_sums(tile, tile_input(x, i, count, b0, n, copy), n, acc);
    for (int t = 0; t < count; ++t) {
      float* out = y + (i + t) * stride;
      segment == 0 ? store_some(out, acc[t], rows) : add_some(out, acc[t], rows);
    }
  }
}

template <class Format>
inline void quantized_tiles(const uint8_t* w, size_t row_bytes, int rows, const XRows& x, float* y,
                            int64_t stride) {
  TileOf<Format> tile;
  TileCopy copy;
  const int64_t n = x.K / 32;
  for (int s = 0; s < 8; ++s) {
    const int64_t b0 = segment_begin(n, s), blocks = segment_begin(n, s + 1) - b0;
    tile.template fill<Format>(w, row_bytes, rows, b0, blocks, false);
    asm volatile("" ::: "memory");  // tile loads do not say that they read
    add_segments(tile, s, b0, blocks, x, copy, y, stride, rows);
  }
}

inline void any_tiles(const WeightMatrix& w, int64_t m0, int64_t m1, const float*, const XRows& rows,
                      float* y, int64_t stride) {
  const uint8_t* first = static_cast<const uint8_t*>(w.data) + static_cast<size_t>(m0) * w.row_bytes;
  with_format(w.type, [&](auto format) {
    quantized_tiles<decltype(format)>(first, w.row_bytes, static_cast<int>(m1 - m0), rows, y + m0, stride);
  });
}

inline int steps_of(WeightType type) {
  int steps = 0;
  with_format(type, [&](auto format) { steps = decltype(format)::kSteps; });
  return steps;
}

}  // namespace ARGON_ISA_NS

void matmul_avx512(const MatmulArgs& a, int64_t begin, int64_t end);
void matmul_grouped_avx512(const MatmulGroupedArgs& a, int64_t begin, int64_t end);

void matmul_amx(const MatmulArgs& a, int64_t begin, int64_t end) {
  const int steps = steps_of(a.w.type);
  if (steps == 0 || !fits_tile(a.w.cols)) return matmul_avx512(a, begin, end);
  const TileShapes shapes(steps);
  matmul_units(a, begin, end, any_tiles);
}

void matmul_grouped_amx(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  const int steps = steps_of(a.w.first.type);
  if (steps == 0 || !fits_tile(a.w.first.cols)) return matmul_grouped_avx512(a, begin, end);
  const TileShapes shapes(steps);
  const int64_t tiles = (a.w.first.rows + kMatmulTile - 1) / kMatmulTile;
  for (int64_t u = begin; u < end; ++u) {
    const int32_t* slots = a.expert_begin + u / tiles;
    if (slots[1] - slots[0] < kFewestRows) {
      matmul_grouped_avx512(a, u, u + 1);
    } else {
      grouped_units(a, u, u + 1, any_tiles);
    }
  }
}

}  // namespace argon::ops
