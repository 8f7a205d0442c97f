// Routes matmul_amx and matmul_grouped_amx: row_tiles.h on AMX tiles. One tile operation is the integer dot
// of one 32-block (or of its half, where a step has 16 values) for 16 rows of W and 16 rows of x; the float
// steps follow in AVX-512. Float weights go the AVX-512 way.
#include "cpu/kernels/row_tiles.h"
#include "cpu/kernels/tile_shapes.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// What tile registers 0-3 hold: dots (rows of x x 16 int32), 4-5: codes of x (rows x K), 6-7: codes of W
// (K/4 x 64), K = 32 or 16.
inline void set_shapes(int rows, int steps) {
  TileShapes c;
  for (int i = 0; i < 8; ++i) {
    c.bytes[i] = static_cast<uint16_t>(i < 4 || i >= 6 ? 64 : 32 / steps);
    c.rows[i] = static_cast<uint8_t>(i < 6 ? rows : 8 / steps);
  }
  load_shapes(c);
}

struct alignas(64) Dots {
  int32_t v[kGroup][16];  // [row of x][row of W]
};

// clang-format off: the intrinsics want literal register numbers
#define ARGON_TILE_DOTS(C, A, B, x, w, out) \
  _tile_loadd(A, x, 64);                    \
  _tile_loadd(B, w, 64);                    \
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
  int height = 0;  // of the tiles' shapes

  AmxEngine() = default;
  ~AmxEngine() { _tile_release(); }
  AmxEngine(const AmxEngine&) = delete;
  AmxEngine& operator=(const AmxEngine&) = delete;

  void shape(int rows, int steps) {
    if (rows == height) return;
    set_shapes(rows, steps);
    height = rows;
  }

  // Dots of block `at`; neighbouring blocks use different registers.
  template <int R, int kSteps, bool kHasMin, class Steps>
  void dots(const WBlock<kSteps, kHasMin>* w, const XGroup<Steps>& x, int64_t at) {
    const int8_t *xc = x.codes + codes_at(at, R), *wc = w[at].codes[0][0];
    Dots* out = ring[at % kRing];
    if constexpr (kSteps == 1) {
      switch (at % 4) {
        case 0:
          ARGON_TILE_DOTS(0, 4, 6, xc, wc, out[0].v);
          break;
        case 1:
          ARGON_TILE_DOTS(1, 5, 7, xc, wc, out[0].v);
          break;
        case 2:
          ARGON_TILE_DOTS(2, 4, 6, xc, wc, out[0].v);
          break;
        default:
          ARGON_TILE_DOTS(3, 5, 7, xc, wc, out[0].v);
      }
    } else if (at % 2 == 0) {
      ARGON_TILE_DOTS(0, 4, 6, xc, wc, out[0].v);
      ARGON_TILE_DOTS(1, 5, 7, xc + 16, wc + 256, out[1].v);
    } else {
      ARGON_TILE_DOTS(2, 4, 6, xc, wc, out[0].v);
      ARGON_TILE_DOTS(3, 5, 7, xc + 16, wc + 256, out[1].v);
    }
  }

  template <int R, int kSteps, bool kHasMin, class Steps>
  void open(const WBlock<kSteps, kHasMin>* w, const XGroup<Steps>& x, int64_t count) {
    for (int64_t at = 0; at < std::min(kAhead, count); ++at) dots<R>(w, x, at);
  }

  template <int R, int kSteps, bool kHasMin, class Steps>
  void block(const WBlock<kSteps, kHasMin>* w, const XGroup<Steps>& x, int64_t at, int64_t count,
             Floats16* acc) {
    if (at + kAhead < count) dots<R>(w, x, at + kAhead);
    const Steps& xs = x.steps[at];
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
      const Dots& dot = ring[at % kRing][step];
      const Floats16 sw = load16(w[at].sw[step]);
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) {
        const Floats16 d = set16(xs.d[t]);
        acc[t] = fma16(mul16(sw, d), to_floats(_mm512_loadu_si512(dot.v[t])), acc[t]);
        if constexpr (kHasMin) {
          const Floats16 sum = _mm512_castsi512_ps(_mm512_set1_epi32(xs.extra[step][t]));
          acc[t] = fnma16(mul16(load16(w[at].mw[step]), d), sum, acc[t]);
        }
      }
    }
  }
};

// Where a group of x is alone with its weights, VNNI is quicker: tiles need some blocks to get going, in each
// piece anew.
constexpr int64_t kFewRows = kGroup;

}  // namespace ARGON_ISA_NS

void matmul_avx512(const MatmulArgs& a, int64_t begin, int64_t end);
void matmul_grouped_avx512(const MatmulGroupedArgs& a, int64_t begin, int64_t end);

void matmul_amx(const MatmulArgs& a, int64_t begin, int64_t end) {
  if (is_plain_float(a.w.type)) return matmul_avx512(a, begin, end);
  matmul_units<AmxEngine>(a, begin, end);
}

void matmul_grouped_amx(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  if (is_plain_float(a.w.first.type)) return matmul_grouped_avx512(a, begin, end);
  each_expert(a, begin, end,
              [&](int64_t u, int64_t stop, const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& x,
                  const float*, float* y) {
                if (x.count <= kFewRows) return matmul_grouped_avx512(a, u, stop);
                if (!quantized_rows<AmxEngine>(w, m0, m1, x, y, w.rows)) matmul_grouped_ref(a, u, stop);
              });
}

}  // namespace argon::ops
