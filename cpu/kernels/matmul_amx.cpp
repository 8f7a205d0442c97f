// Routes matmul_amx and matmul_grouped_amx: row_tiles.h on AMX tiles. One tile operation is the integer dot
// of one 32-block (or of its half, where a step has 16 values) for 16 rows of W and 16 rows of x; the float
// steps follow in AVX-512. Float weights go the AVX-512 way.
#include "cpu/kernels/row_tiles.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// What tile registers 0-3 hold: dots (16 x 16 int32), 4-5: codes of W (16 x K), 6-7: codes of x (K/4 x 64),
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

struct alignas(64) Dots {
  int32_t v[kMatmulTile][kLanes];  // [row of W][row of x]
};

// clang-format off: the intrinsics want literal register numbers
#define ARGON_TILE_DOTS(C, A, B, w, x, out) \
  _tile_loadd(A, w, WeightPiece::kStride);  \
  _tile_loadd(B, x, 64);                    \
  _tile_zero(C);                            \
  _tile_dpbssd(C, A, B);                    \
  _tile_stored(C, out, 64)
// clang-format on

// The tile unit works some blocks ahead of the float steps: a stored tile cannot be read before it has left
// the store buffer.
struct AmxEngine {
  static constexpr bool kUnsigned = false;
  static constexpr int64_t kAhead = 3, kRing = 4;
  Dots ring[kRing][2];

  // Dots of block `at`; neighbouring blocks use different registers.
  template <int kSteps, class Block>
  void dots(const WeightPiece& piece, const Block* x, int64_t at) {
    const int8_t *w = piece.codes + at * 32, *xc = x[at].codes[0][0];
    Dots* out = ring[at % kRing];
    if constexpr (kSteps == 1) {
      switch (at % 4) {
        case 0:
          ARGON_TILE_DOTS(0, 4, 6, w, xc, out[0].v);
          break;
        case 1:
          ARGON_TILE_DOTS(1, 5, 7, w, xc, out[0].v);
          break;
        case 2:
          ARGON_TILE_DOTS(2, 4, 6, w, xc, out[0].v);
          break;
        default:
          ARGON_TILE_DOTS(3, 5, 7, w, xc, out[0].v);
      }
    } else if (at % 2 == 0) {
      ARGON_TILE_DOTS(0, 4, 6, w, xc, out[0].v);
      ARGON_TILE_DOTS(1, 5, 7, w + 16, xc + 256, out[1].v);
    } else {
      ARGON_TILE_DOTS(2, 4, 6, w, xc, out[0].v);
      ARGON_TILE_DOTS(3, 5, 7, w + 16, xc + 256, out[1].v);
    }
  }

  template <int kSteps, class Block>
  void open(const WeightPiece& piece, const Block* x, int64_t count) {
    for (int64_t at = 0; at < std::min(kAhead, count); ++at) dots<kSteps>(piece, x, at);
  }

  template <int kSteps, bool kHasMin, class Block>
  void block(const WeightPiece& piece, const Block* x, int64_t at, int64_t count, Floats16* acc) {
    if (at + kAhead < count) dots<kSteps>(piece, x, at + kAhead);
    const float *sw = piece.sw + at * kSteps, *mw = piece.mw + at * kSteps;
    const Floats16 d = load16(x[at].d);
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      const Dots& dot = ring[at % kRing][step];
      Floats16 sum = d;
      if constexpr (kHasMin) sum = _mm512_castsi512_ps(_mm512_loadu_si512(x[at].extra[step]));
#pragma GCC unroll 16
      for (int m = 0; m < kMatmulTile; ++m) {
        const int64_t s = m * WeightPiece::kSteps + step;
        acc[m] = fma16(mul16(set16(sw[s]), d), to_floats(_mm512_loadu_si512(dot.v[m])), acc[m]);
        if constexpr (kHasMin) acc[m] = fnma16(mul16(set16(mw[s]), d), sum, acc[m]);
      }
    }
  }
};

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
  if (steps == 0) return matmul_avx512(a, begin, end);
  const TileShapes shapes(steps);
  matmul_units<AmxEngine>(a, begin, end);
}

void matmul_grouped_amx(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  const int steps = steps_of(a.w.first.type);
  if (steps == 0) return matmul_grouped_avx512(a, begin, end);
  const TileShapes shapes(steps);
  grouped_units<AmxEngine>(a, begin, end);
}

}  // namespace argon::ops
