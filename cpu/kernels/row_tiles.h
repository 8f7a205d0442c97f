// Products with quantised weights in 512 bits, for any format (unpack_avx2.h). A lane is a row of W.
//
// 16 rows of W are unpacked some blocks at a time, four codes of each row side by side (unpack_avx512.h), so
// that a block is the right operand of a tile operation and a vector operand of VNNI. Up to 16 rows of x are
// the left operand (or are broadcast) as they are: the rows that there are cost their own work and no more,
// which is what experts with few rows need. The engine (matmul_avx512.cpp, matmul_amx.cpp) multiplies; here
// is what is the same for both.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpu/kernels/unpack_avx512.h"
#include "cpu/kernels/with_format.h"
#include "cpu/kernels/x_rows.h"
#include "ops/matmul/matmul.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

constexpr int kGroup = 16;  // rows of x that are multiplied together
constexpr int64_t kPiece = 16,
                  kMostPiece = kPiece + 8;  // blocks of W unpacked at a time; the last may be longer
constexpr int64_t kTiles = 2;               // of 16 rows of W that share a part of x in the first-level cache
constexpr int64_t kPackedBytes = 3 << 19;   // of x taken together, so that the second-level cache keeps them

// What the float steps of a block of 32 need of the rows of x. `extra` is what a step needs of the sums of
// their codes: as floats for a minimum, or what a dot starts from.
template <int steps, bool has_extra>
struct XSteps {
  float d[kGroup];
  int32_t extra[steps][kGroup];
};
template <int steps>
struct XSteps<steps, false> {
  float d[kGroup];
};

// Rows of x that are multiplied together: 64 codes of each, two blocks, row by row, then the next 64.
template <class Steps>
struct XGroup {
  int8_t* codes;
  Steps* steps;  // by block
};
// Where the codes of block `at` of `height` rows begin, rows being 64 apart.
inline int64_t codes_at(int64_t at, int64_t height) { return at / 2 * 64 * height + at % 2 * 32; }

// What a group of x has with 16 rows of W so far: a vector per row of x.
struct GroupSums {
  alignas(64) float acc[kGroup][16];    // of the segment that a piece ended in
  alignas(64) float total[kGroup][16];  // of the segments before
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

// Rows i0 .. i0+count-1 of the call and zeros up to `height` rows (of 16). `start`: what one code of x adds
// to the beginning of a dot, for types without a minimum.
template <int kSteps, bool kExtra>
inline void pack_group(const XRows& x, int64_t i0, int64_t count, int64_t height, bool has_min, int start,
                       const XGroup<XSteps<kSteps, kExtra>>& out) {
  const int64_t n = x.K / 32;
  const float* d[kGroup];
  const int16_t* sums[kGroup];
  for (int64_t t = 0; t < kGroup; ++t) {
    const int64_t row = x.row(i0 + std::min(t, count - 1));
    d[t] = x.q.d + row * n;
    sums[t] = x.q.sums + row * 2 * n;
    if (t >= height) continue;
    const int8_t* codes = x.q.codes + row * x.K;
    for (int64_t b = 0; b < n; ++b) {
      const __m256i c = t < count ? load32(codes + b * 32) : _mm256_setzero_si256();
      _mm256_store_si256(reinterpret_cast<__m256i*>(out.codes + codes_at(b, height) + t * 64), c);
    }
  }
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t t = 0; t < height; ++t) out.steps[b].d[t] = t < count ? d[t][b] : 0.0f;
    if constexpr (kExtra) {
      for (int step = 0; step < kSteps; ++step) {
        for (int64_t t = 0; t < height; ++t) {
          const int16_t* s = sums[t] + 2 * b;
          const int32_t sum = t >= count ? 0 : kSteps == 1 ? s[0] + s[1] : s[step];
          out.steps[b].extra[step][t] =
              has_min ? static_cast<int32_t>(f32_bits(static_cast<float>(sum))) : start * sum;
        }
      }
    }
  }
}

// Blocks b0 .. b1-1 of the piece for R rows of x. `segment` is that of block b0; the result is that of block
// b1. `ahead` (or null) is what a later tile reads, fetched meanwhile, `ahead_step` bytes a block.
template <class Engine, int R, int kSteps, bool kHasMin, class Steps>
[[gnu::noinline]] int add_piece(Engine& engine, const WBlock<kSteps, kHasMin>* w, const XGroup<Steps>& x,
                                int64_t n, int64_t b0, int64_t b1, int segment, const uint8_t* ahead,
                                int64_t ahead_step, GroupSums& sums) {
  engine.template open<R, kSteps, kHasMin>(w, x, b1 - b0);
  bool fresh = b0 == segment_begin(n, segment);
  for (int64_t b = b0; b < b1;) {
    const int64_t end = segment_begin(n, segment + 1), stop = std::min(end, b1);
    Floats16 acc[R];
#pragma GCC unroll 16
    for (int t = 0; t < R; ++t) acc[t] = zero16();
    if (!fresh) {
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) acc[t] = load16(sums.acc[t]);
    }
    for (; b < stop; ++b) {
      if (ahead != nullptr) {
        for (int64_t at = 0; at < ahead_step; at += 64) prefetch_line(ahead + at);
        ahead += ahead_step;
      }
      engine.template block<R, kSteps, kHasMin>(w, x, b - b0, b1 - b0, acc);
    }
    if (b < end) {
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) store16(sums.acc[t], acc[t]);
      break;
    }
    if (segment == 0) {
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) store16(sums.total[t], acc[t]);
    } else {
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) store16(sums.total[t], add16(load16(sums.total[t]), acc[t]));
    }
    ++segment;
    fresh = true;
  }
  return segment;
}

// add_piece for `height` rows of x, an even number.
template <class Engine, int kSteps, bool kHasMin, class Steps, int R = kGroup>
constexpr auto piece_of(int64_t height) {
  if constexpr (R > 2) {
    if (height < R) return piece_of<Engine, kSteps, kHasMin, Steps, R - 2>(height);
  }
  return add_piece<Engine, R, kSteps, kHasMin, Steps>;
}

template <int kSteps, bool kHasMin>
using UnpackWeights = void (*)(const uint8_t*, size_t, int64_t, int64_t, int64_t, int64_t,
                               WBlock<kSteps, kHasMin>*);

// Rows m0 .. m1-1 of W times all rows of x; y points at column 0. False when there is no memory to do it in.
template <class Engine, int kSteps, bool kHasMin>
[[gnu::noinline]] bool tile_products(const uint8_t* w, size_t row_bytes, int64_t m0, int64_t m1,
                                     UnpackWeights<kSteps, kHasMin> unpack, int start, const XRows& x,
                                     float* y, int64_t stride) {
  using Steps = XSteps<kSteps, kHasMin || Engine::kUnsigned>;
  static thread_local Scratch512 scratch;
  const int64_t n = x.K / 32, all = (x.count + kGroup - 1) / kGroup;
  const size_t code_bytes = static_cast<size_t>((n + 1) / 2 * 64 * kGroup),
               group_bytes = code_bytes + static_cast<size_t>(n) * sizeof(Steps);
  const int64_t most = std::max<int64_t>(1, kPackedBytes / static_cast<int64_t>(group_bytes));
  const int64_t turns = (all + most - 1) / most, per_turn = (all + turns - 1) / turns;
  const size_t packed = static_cast<size_t>(per_turn) * group_bytes;
  char* const memory =
      static_cast<char*>(scratch.get(packed + static_cast<size_t>(per_turn * kTiles) * sizeof(GroupSums)));
  if (memory == nullptr) return false;
  GroupSums* const sums = reinterpret_cast<GroupSums*>(memory + packed);
  const int64_t tile_bytes = kMatmulTile * static_cast<int64_t>(row_bytes), ahead_step = tile_bytes / n;
  alignas(64) WBlock<kSteps, kHasMin> piece[kTiles][kMostPiece];
  Engine engine;
  for (int64_t g0 = 0; g0 < all; g0 += per_turn) {
    const int64_t groups = std::min(per_turn, all - g0);
    const auto rows_of = [&](int64_t g) { return std::min<int64_t>(kGroup, x.count - (g0 + g) * kGroup); };
    const auto height = [&](int64_t g) { return (rows_of(g) + 1) / 2 * 2; };
    const auto group = [&](int64_t g, int64_t b) {
      char* const at = memory + static_cast<size_t>(g) * group_bytes;
      return XGroup<Steps>{reinterpret_cast<int8_t*>(at) + codes_at(b, height(g)),
                           reinterpret_cast<Steps*>(at + code_bytes) + b};
    };
    for (int64_t g = 0; g < groups; ++g) {
      pack_group(x, (g0 + g) * kGroup, rows_of(g), height(g), kHasMin, start, group(g, 0));
    }
    for (int64_t m = m0; m < m1; m += kTiles * kMatmulTile) {
      const uint8_t* rows = w + static_cast<size_t>(m) * row_bytes;
      const int64_t tiles = std::min(kTiles, (m1 - m + kMatmulTile - 1) / kMatmulTile);
      const auto width = [&](int64_t j) { return std::min(kMatmulTile, m1 - m - j * kMatmulTile); };
      int segment = 0;
      for (int64_t b0 = 0, b1; b0 < n; b0 = b1) {
        b1 = n - b0 <= kMostPiece ? n : b0 + kPiece;
        for (int64_t j = 0; j < tiles; ++j)
          unpack(rows + j * tile_bytes, row_bytes, width(j), n, b0, b1, piece[j]);
        asm volatile("" ::: "memory");  // tile loads do not say that they read
        int next = segment;
        for (int64_t g = 0; g < groups; ++g) {
          const auto add = piece_of<Engine, kSteps, kHasMin, Steps>(height(g));
          engine.shape(static_cast<int>(height(g)), kSteps);
          for (int64_t j = 0; j < tiles; ++j) {
            const uint8_t* ahead = g == 0 ? rows + (tiles + j) * tile_bytes + ahead_step * b0 : nullptr;
            next = add(engine, piece[j], group(g, b0), n, b0, b1, segment, ahead, ahead_step,
                       sums[g * kTiles + j]);
          }
        }
        segment = next;
      }
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t j = 0; j < tiles; ++j) {
          float* to = y + (g0 + g) * kGroup * stride + m + j * kMatmulTile;
          for (int64_t t = 0; t < rows_of(g); ++t)
            store_some(to + t * stride, load16(sums[g * kTiles + j].total[t]), static_cast<int>(width(j)));
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
