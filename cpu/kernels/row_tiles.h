// Products with quantised weights in 512 bits, for any format (unpack_avx2.h). A lane is a row of x.
//
// 16 rows of x are packed once per call, four codes of each row side by side, so that they are the right
// operand of a tile operation and a vector operand of VNNI. 16 rows of W are unpacked some blocks at a time
// in the order of the file, which makes unpacking cheap, and are the left operand or are broadcast. So few
// rows of x pay for little else than their own products. The engine (matmul_avx512.cpp, matmul_amx.cpp)
// multiplies; here is what is the same for both.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpu/kernels/unpack_codebooks_avx2.h"
#include "cpu/kernels/wide_avx512.h"
#include "cpu/kernels/with_format.h"
#include "cpu/kernels/x_rows.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int kLanes = 16;  // rows of x in a group
constexpr int64_t kPiece = 16,
                  kMostPiece = kPiece + 8;  // blocks of W unpacked at a time; the last may be longer
constexpr int64_t kTiles = 2;               // of 16 rows of W that share a part of x in the first-level cache
constexpr int64_t kPackedBytes = 3 << 19;   // of x taken together, so that the second-level cache keeps them

// Blocks of 16 rows of W: row m's codes in the order of the file, plus `offset` of pack_weights; steps and
// minima. Rows are an odd number of cache lines apart.
struct WeightPiece {
  static constexpr int64_t kStride = kMostPiece * 32 + 64;
  static constexpr int64_t kSteps = kMostPiece * 2 + 16;
  alignas(64) int8_t codes[kMatmulTile * kStride];
  alignas(64) float sw[kMatmulTile * kSteps];
  alignas(64) float mw[kMatmulTile * kSteps];
};

// A block of 32 of 16 rows of x. `extra` is what a step needs of the sums of its codes: as a float for a
// minimum, or what a dot starts from.
template <int steps, bool has_extra>
struct XBlock {
  alignas(64) int8_t codes[8][kLanes][4];
  float d[kLanes];
  int32_t extra[steps][kLanes];
};
template <int steps>
struct XBlock<steps, false> {
  alignas(64) int8_t codes[8][kLanes][4];
  float d[kLanes];
};

// What 16 rows of x have with 16 rows of W so far: a vector per row of W.
struct GroupSums {
  alignas(64) float acc[kMatmulTile][kLanes];    // of the segment that a piece ended in
  alignas(64) float total[kMatmulTile][kLanes];  // of the segments before
};

// Working memory of a thread, kept from call to call.
class Scratch512 {
 public:
  Scratch512() = default;
  ~Scratch512() { std::free(memory_); }
  Scratch512(const Scratch512&) = delete;
  Scratch512& operator=(const Scratch512&) = delete;
  // `bytes` on a cache line, or null.
  void* get(size_t bytes) {
    if (bytes > size_) {
      std::free(memory_);
      bytes = (bytes + 4095) / 4096 * 4096;
      memory_ = std::aligned_alloc(4096, bytes);
      size_ = memory_ == nullptr ? 0 : bytes;
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

inline void prefetch_line(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// The steps of eight blocks with two each, in order.
inline void store_pairs(float* out, const __m256* steps) {
  const __m256 low = _mm256_unpacklo_ps(steps[0], steps[1]), high = _mm256_unpackhi_ps(steps[0], steps[1]);
  _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

// 16 rows of 8 groups of four codes to [group][row][4].
inline void interleave_rows(const __m256i* rows, int8_t* out) {
  for (int half = 0; half < 2; ++half) {
    const __m256i* r = rows + 8 * half;
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
      u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
      u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
      u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    int8_t* to = out + 32 * half;
    for (int g = 0; g < 4; ++g) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 64 * g),
                         _mm256_permute2x128_si256(u[g], u[g + 4], 0x20));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 64 * (g + 4)),
                         _mm256_permute2x128_si256(u[g], u[g + 4], 0x31));
    }
  }
}

// Rows i0 .. i0+count-1 (1..16) of the call; absent lanes are zero. `start`: what one code of x adds to the
// beginning of a dot, for types without a minimum.
template <int kSteps, bool kExtra>
inline void pack_group(const XRows& x, int64_t i0, int64_t count, bool has_min, int start,
                       XBlock<kSteps, kExtra>* out) {
  const int64_t n = x.K / 32;
  const int8_t* codes[kLanes];
  const float* d[kLanes];
  const int16_t* sums[kLanes];
  for (int64_t t = 0; t < kLanes; ++t) {
    const int64_t row = x.row(i0 + std::min(t, count - 1));
    codes[t] = x.q.codes + row * x.K;
    d[t] = x.q.d + row * n;
    sums[t] = x.q.sums + row * 2 * n;
  }
  for (int64_t b = 0; b < n; ++b) {
    __m256i rows[kLanes];
    for (int t = 0; t < kLanes; ++t) rows[t] = t < count ? load32(codes[t] + b * 32) : _mm256_setzero_si256();
    interleave_rows(rows, &out[b].codes[0][0][0]);
    for (int t = 0; t < kLanes; ++t) out[b].d[t] = t < count ? d[t][b] : 0.0f;
    if constexpr (kExtra) {
      for (int step = 0; step < kSteps; ++step) {
        for (int t = 0; t < kLanes; ++t) {
          const int16_t* s = sums[t] + 2 * b;
          const int32_t sum = t >= count ? 0 : kSteps == 1 ? s[0] + s[1] : s[step];
          out[b].extra[step][t] =
              has_min ? static_cast<int32_t>(f32_bits(static_cast<float>(sum))) : start * sum;
        }
      }
    }
  }
}

// 16 rows of W of a format: blocks b0 .. b1-1 of n; b0 is a multiple of 8. Absent rows repeat the last.
// kUnsigned: codes plus an offset that makes none negative, offset_of<Format>(); otherwise as they are.
template <class Format>
constexpr int offset_of() {
  return Unpack8<Format>::kSigned ? 128 : Unpack8<Format>::kOffset;
}

template <class Format, bool kUnsigned>
[[gnu::noinline]] void unpack_weights(const uint8_t* w, size_t row_bytes, int64_t rows, int64_t n, int64_t b0,
                                      int64_t b1, WeightPiece& out) {
  using Unpacked = Unpack8<Format>;
  constexpr int kSubs = Format::kBlockValues / 32, kSteps = Format::kSteps;
  constexpr int kAdded = kUnsigned ? (Unpacked::kSigned ? 128 : 0) : -Unpacked::kOffset;
  const __m256i added = _mm256_set1_epi8(static_cast<char>(kAdded));
  for (int64_t m = 0; m < kMatmulTile; ++m) {
    const uint8_t* row = w + static_cast<size_t>(std::min(m, rows - 1)) * row_bytes;
    int8_t* codes = out.codes + m * WeightPiece::kStride;
    float *sw = out.sw + m * WeightPiece::kSteps, *mw = out.mw + m * WeightPiece::kSteps;
    if (n < 8) {
      for (int64_t b = b0; b < b1; ++b) {
        alignas(32) int8_t c[32];
        Steps s;
        Format::unpack32(row + (b / kSubs) * Format::kBlockBytes, static_cast<int>(b % kSubs), c, &s);
        const int offset = kUnsigned ? offset_of<Format>() : 0;
        for (int i = 0; i < 32; ++i) codes[(b - b0) * 32 + i] = static_cast<int8_t>(c[i] + offset);
        for (int step = 0; step < kSteps; ++step) {
          sw[(b - b0) * kSteps + step] = s.sw[step];
          if constexpr (Format::kHasMin) mw[(b - b0) * kSteps + step] = s.mw[step];
        }
      }
      continue;
    }
    for (int64_t at = b0; at < b1; at += 8) {
      const int64_t b = std::min(at, n - 8);  // the last eight may overlap those before
      Group8 g;
      Unpacked::run(row + static_cast<size_t>(b / kSubs) * Format::kBlockBytes, &g);
      for (int k = 0; k < 8; ++k) {
        const __m256i c = kAdded == 0 ? g.codes[k] : _mm256_add_epi8(g.codes[k], added);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + (b - b0 + k) * 32), c);
      }
      if constexpr (kSteps == 1) {
        _mm256_storeu_ps(sw + (b - b0), g.sw[0]);
        if constexpr (Format::kHasMin) _mm256_storeu_ps(mw + (b - b0), g.mw[0]);
      } else {
        store_pairs(sw + 2 * (b - b0), g.sw);
        if constexpr (Format::kHasMin) store_pairs(mw + 2 * (b - b0), g.mw);
      }
    }
  }
}

// y[t][m] of 16 vectors of 16 lanes t.
inline void store_transposed(const float (*v)[kLanes], int64_t count, int64_t rows, float* y,
                             int64_t stride) {
  __m512i a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const __m512i r = _mm512_loadu_si512(v[i]), s = _mm512_loadu_si512(v[i + 1]);
    a[i] = _mm512_unpacklo_epi32(r, s);
    a[i + 1] = _mm512_unpackhi_epi32(r, s);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // lane t of each quarter q is token 4q + t
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {  // quarters of four vectors to the rows of tokens t, 4 + t, 8 + t, 12 + t
    const __m512i low = _mm512_shuffle_i32x4(b[t], b[4 + t], 0x44),
                  high = _mm512_shuffle_i32x4(b[t], b[4 + t], 0xee),
                  low2 = _mm512_shuffle_i32x4(b[8 + t], b[12 + t], 0x44),
                  high2 = _mm512_shuffle_i32x4(b[8 + t], b[12 + t], 0xee);
    a[t] = _mm512_shuffle_i32x4(low, low2, 0x88);
    a[4 + t] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    a[8 + t] = _mm512_shuffle_i32x4(high, high2, 0x88);
    a[12 + t] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
  for (int64_t t = 0; t < count; ++t)
    store_some(y + t * stride, _mm512_castsi512_ps(a[t]), static_cast<int>(rows));
}

using UnpackWeights = void (*)(const uint8_t*, size_t, int64_t, int64_t, int64_t, int64_t, WeightPiece&);

// Blocks b0 .. b1-1 of the piece for a group of x. `segment` is that of block b0; the result is that of block
// b1. `ahead` (or null) is what a later tile reads, fetched meanwhile, `ahead_step` bytes a block.
template <class Engine, int kSteps, bool kHasMin, class Block>
inline int add_piece(Engine& engine, const WeightPiece& piece, const Block* x, int64_t n, int64_t b0,
                     int64_t b1, int segment, const uint8_t* ahead, int64_t ahead_step, GroupSums& sums) {
  engine.template open<kSteps>(piece, x, b1 - b0);
  bool fresh = b0 == segment_begin(n, segment);
  for (int64_t b = b0; b < b1;) {
    const int64_t end = segment_begin(n, segment + 1), stop = std::min(end, b1);
    Floats16 acc[kMatmulTile];
#pragma GCC unroll 16
    for (int i = 0; i < kMatmulTile; ++i) acc[i] = zero16();
    if (!fresh) {
#pragma GCC unroll 16
      for (int i = 0; i < kMatmulTile; ++i) acc[i] = load16(sums.acc[i]);
    }
    for (; b < stop; ++b) {
      if (ahead != nullptr) {
        for (int64_t at = 0; at < ahead_step; at += 64) prefetch_line(ahead + at);
        ahead += ahead_step;
      }
      engine.template block<kSteps, kHasMin>(piece, x, b - b0, b1 - b0, acc);
    }
    if (b < end) {
#pragma GCC unroll 16
      for (int i = 0; i < kMatmulTile; ++i) store16(sums.acc[i], acc[i]);
      break;
    }
    if (segment == 0) {
#pragma GCC unroll 16
      for (int i = 0; i < kMatmulTile; ++i) store16(sums.total[i], acc[i]);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kMatmulTile; ++i) store16(sums.total[i], add16(load16(sums.total[i]), acc[i]));
    }
    ++segment;
    fresh = true;
  }
  return segment;
}

// Rows m0 .. m1-1 of W times all rows of x; y points at column 0. False when there is no memory to do it in.
template <class Engine, int kSteps, bool kHasMin>
[[gnu::noinline]] bool tile_products(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1,
                                     UnpackWeights unpack, int start, const XRows& x, float* y,
                                     int64_t stride) {
  using Block = XBlock<kSteps, kHasMin || Engine::kUnsigned>;
  static thread_local Scratch512 scratch;
  const int64_t n = x.K / 32, all = (x.count + kLanes - 1) / kLanes;
  const int64_t most = std::max<int64_t>(1, kPackedBytes / (n * static_cast<int64_t>(sizeof(Block))));
  const int64_t turns = (all + most - 1) / most, per_turn = (all + turns - 1) / turns;
  const size_t packed = static_cast<size_t>(per_turn * n) * sizeof(Block);
  char* const memory =
      static_cast<char*>(scratch.get(packed + static_cast<size_t>(per_turn * kTiles) * sizeof(GroupSums)));
  if (memory == nullptr) return false;
  Block* const blocks = reinterpret_cast<Block*>(memory);
  GroupSums* const sums = reinterpret_cast<GroupSums*>(memory + packed);
  const int64_t tile_bytes = kMatmulTile * static_cast<int64_t>(row_bytes), ahead_step = tile_bytes / n;
  WeightPiece piece[kTiles];
  Engine engine;
  for (int64_t g0 = 0; g0 < all; g0 += per_turn) {
    const int64_t groups = std::min(per_turn, all - g0);
    const auto lanes = [&](int64_t g) { return std::min<int64_t>(kLanes, x.count - (g0 + g) * kLanes); };
    for (int64_t g = 0; g < groups; ++g)
      pack_group(x, (g0 + g) * kLanes, lanes(g), kHasMin, start, blocks + g * n);
    for (int64_t m = m0; m < m1; m += kTiles * kMatmulTile) {
      const uint8_t* rows = w + static_cast<size_t>(m) * row_bytes;
      const int64_t tiles = std::min(kTiles, (m1 - m + kMatmulTile - 1) / kMatmulTile);
      const auto height = [&](int64_t j) { return std::min(kMatmulTile, m1 - m - j * kMatmulTile); };
      int segment = 0;
      for (int64_t b0 = 0, b1; b0 < n; b0 = b1) {
        b1 = n - b0 <= kMostPiece ? n : b0 + kPiece;
        for (int64_t j = 0; j < tiles; ++j)
          unpack(rows + j * tile_bytes, row_bytes, height(j), n, b0, b1, piece[j]);
        asm volatile("" ::: "memory");  // tile loads do not say that they read
        int next = segment;
        for (int64_t g = 0; g < groups; ++g) {
          for (int64_t j = 0; j < tiles; ++j) {
            const uint8_t* ahead = g == 0 ? rows + (tiles + j) * tile_bytes + ahead_step * b0 : nullptr;
            next = add_piece<Engine, kSteps, kHasMin>(engine, piece[j], blocks + g * n + b0, n, b0, b1,
                                                      segment, ahead, ahead_step, sums[g * kTiles + j]);
          }
        }
        segment = next;
      }
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t j = 0; j < tiles; ++j) {
          store_transposed(sums[g * kTiles + j].total, lanes(g), height(j),
                           y + (g0 + g) * kLanes * stride + m + j * kMatmulTile, stride);
        }
      }
    }
  }
  return true;
}

template <class Engine>
inline bool quantized_rows(const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& x, float* y,
                           int64_t stride) {
  bool done = false;
  with_format(w.type, [&](auto format) {
    using Format = decltype(format);
    done = tile_products<Engine, Format::kSteps, Format::kHasMin>(
        static_cast<const uint8_t*>(w.data), w.row_bytes, m0, m1, unpack_weights<Format, Engine::kUnsigned>,
        -offset_of<Format>(), x, y, stride);
  });
  return done;
}

// The units of matmul and matmul_grouped. Where there is no memory, the reference does them.
template <class Engine>
inline void matmul_units(const MatmulArgs& a, int64_t begin, int64_t end) {
  const int64_t m1 = std::min(end * kMatmulTile, a.w.rows);
  if (!quantized_rows<Engine>(a.w, begin * kMatmulTile, m1, {a.q, nullptr, a.T, a.w.cols}, a.y, a.ldy))
    matmul_ref(a, begin, end);
}

template <class Engine>
inline void grouped_units(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  each_expert(a, begin, end,
              [&](int64_t u, int64_t stop, const WeightMatrix& w, int64_t m0, int64_t m1, const XRows& x,
                  const float*, float* y) {
                if (!quantized_rows<Engine>(w, m0, m1, x, y, w.rows)) matmul_grouped_ref(a, u, stop);
              });
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
