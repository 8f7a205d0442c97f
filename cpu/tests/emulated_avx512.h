// The AVX-512 and AMX instructions that the kernels use, one by one in plain arithmetic, so that the kernels
// can be tested on processors without them (cpu/tests/emulated_parity.cpp). Each follows the pseudocode of
// Intel's manual. 256-bit instructions are the real ones.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace argon::emulated {

struct F512 {
  float f[16];
};
struct I512 {
  int32_t i[16];
};
template <class T>
inline T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Fn>
inline F512 floats(Fn fn) {
  F512 r;
  for (int k = 0; k < 16; ++k) r.f[k] = fn(k);
  return r;
}
template <class Fn>
inline I512 ints(Fn fn) {
  I512 r;
  for (int k = 0; k < 16; ++k) r.i[k] = fn(k);
  return r;
}
[[gnu::noinline]] inline I512 set1(int32_t v) {
  return ints([&](int) { return v; });
}
[[gnu::noinline]] inline I512 dpbusd(const I512& acc, const I512& u, const I512& s) {
  uint8_t ub[64];
  int8_t sb[64];
  std::memcpy(ub, &u, 64);
  std::memcpy(sb, &s, 64);
  return ints([&](int k) {
    int32_t sum = acc.i[k];
    for (int j = 4 * k; j < 4 * k + 4; ++j) sum += int32_t{ub[j]} * int32_t{sb[j]};
    return sum;
  });
}
// Within each quarter of 4 lanes: lanes (a, b) of the first, then of the second operand, interleaved.
[[gnu::noinline]] inline I512 unpack32(const I512& a, const I512& b, int from) {
  return ints([&](int k) { return (k % 2 == 0 ? a : b).i[k / 4 * 4 + from + k % 4 / 2]; });
}
[[gnu::noinline]] inline I512 unpack64(const I512& a, const I512& b, int from) {
  return ints([&](int k) { return (k % 4 < 2 ? a : b).i[k / 4 * 4 + from + k % 2]; });
}
[[gnu::noinline]] inline I512 quarters(const I512& a, const I512& b, int which) {
  return ints([&](int k) { return (k < 8 ? a : b).i[4 * (which >> 2 * (k / 4) & 3) + k % 4]; });
}

struct TileState {
  uint8_t rows[8];
  uint16_t bytes[8];
  alignas(64) uint8_t data[8][16][64];
  bool configured;
};
inline thread_local TileState tiles{};

inline void tile_loadconfig(const void* config) {
  const uint8_t* c = static_cast<const uint8_t*>(config);
  tiles = {};
  std::memcpy(tiles.bytes, c + 16, 16);
  std::memcpy(tiles.rows, c + 48, 8);
  tiles.configured = c[0] == 1;
}
inline void tile_release() { tiles = {}; }
inline void tile_zero(int t) { std::memset(tiles.data[t], 0, sizeof tiles.data[t]); }
inline void tile_load(int t, const void* base, int64_t stride) {
  tile_zero(t);
  for (int r = 0; r < tiles.rows[t]; ++r)
    std::memcpy(tiles.data[t][r], static_cast<const uint8_t*>(base) + r * stride, tiles.bytes[t]);
}
inline void tile_store(int t, void* base, int64_t stride) {
  for (int r = 0; r < tiles.rows[t]; ++r)
    std::memcpy(static_cast<uint8_t*>(base) + r * stride, tiles.data[t][r], tiles.bytes[t]);
}
// C[m][n] += sum over k of A[m][4k..4k+3] * B[k][4n..4n+3], signed. Shapes that the processor would refuse
// trap.
inline void tile_dpbssd(int c, int a, int b) {
  TileState& s = tiles;
  if (!s.configured || s.rows[a] != s.rows[c] || s.bytes[b] != s.bytes[c] || s.bytes[a] != 4 * s.rows[b] ||
      s.rows[c] == 0 || s.bytes[c] == 0)
    __builtin_trap();
  for (int m = 0; m < s.rows[c]; ++m) {
    for (int n = 0; n < s.bytes[c] / 4; ++n) {
      int32_t sum = load<int32_t>(s.data[c][m] + 4 * n);
      for (int k = 0; k < s.bytes[a]; ++k) {
        sum += int32_t{static_cast<int8_t>(s.data[a][m][k])} *
               int32_t{static_cast<int8_t>(s.data[b][k / 4][4 * n + k % 4])};
      }
      std::memcpy(s.data[c][m] + 4 * n, &sum, 4);
    }
  }
}

}  // namespace argon::emulated

#define __m512 ::argon::emulated::F512
#define __m512i ::argon::emulated::I512
// Calls, not copies: the kernels unroll so far that copies take minutes to compile.
#define ARGON_EMULATED(name, result, parameters, ...) \
  [[gnu::noinline]] inline result emulated_##name parameters { __VA_ARGS__ }

namespace argon::emulated {
using F = F512;
using I = I512;
ARGON_EMULATED(setzero_ps, F, (), return F{};)
ARGON_EMULATED(setzero_si512, I, (), return I{};)
ARGON_EMULATED(set1_ps, F, (float v), return floats([&](int) { return v; });)
ARGON_EMULATED(loadu_ps, F, (const void* p), return load<F>(p);)
ARGON_EMULATED(loadu_si512, I, (const void* p), return load<I>(p);)
ARGON_EMULATED(storeu_ps, void, (void* p, F v), std::memcpy(p, &v, 64);)
ARGON_EMULATED(add_ps, F, (F a, F b), return floats([&](int k) { return a.f[k] + b.f[k]; });)
ARGON_EMULATED(sub_ps, F, (F a, F b), return floats([&](int k) { return a.f[k] - b.f[k]; });)
ARGON_EMULATED(mul_ps, F, (F a, F b), return floats([&](int k) { return a.f[k] * b.f[k]; });)
ARGON_EMULATED(fmadd_ps, F, (F a, F b, F c),
               return floats([&](int k) { return __builtin_fmaf(a.f[k], b.f[k], c.f[k]); });)
ARGON_EMULATED(fnmadd_ps, F, (F a, F b, F c),
               return floats([&](int k) { return __builtin_fmaf(-a.f[k], b.f[k], c.f[k]); });)
ARGON_EMULATED(cvtepi32_ps, F, (I a), return floats([&](int k) { return static_cast<float>(a.i[k]); });)
ARGON_EMULATED(mask_storeu_ps, void, (float* p, unsigned m, F v),
               for (int k = 0; k < 16; ++k) if (m >> k & 1) p[k] = v.f[k];)
ARGON_EMULATED(half256, __m256, (const float* p), return _mm256_loadu_ps(p);)
ARGON_EMULATED(cvtph_ps, F, (__m256i h), F r;
               _mm256_storeu_ps(r.f, _mm256_cvtph_ps(_mm256_castsi256_si128(h)));
               _mm256_storeu_ps(r.f + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))); return r;)
ARGON_EMULATED(cvtepu16_epi32, I, (__m256i h), uint16_t u[16]; std::memcpy(u, &h, 32);
               return ints([&](int k) { return u[k]; });)
ARGON_EMULATED(slli_epi32, I, (I a, int n),
               return ints([&](int k) { return static_cast<int32_t>(static_cast<uint32_t>(a.i[k]) << n); });)
ARGON_EMULATED(castsi512_ps, F, (I a), return load<F>(&a);)
ARGON_EMULATED(castps_si512, I, (F a), return load<I>(&a);)
ARGON_EMULATED(srli_epi32, I, (I a, int n),
               return ints([&](int k) { return static_cast<int32_t>(static_cast<uint32_t>(a.i[k]) >> n); });)
ARGON_EMULATED(and_si512, I, (I a, I b), return ints([&](int k) { return a.i[k] & b.i[k]; });)
ARGON_EMULATED(or_si512, I, (I a, I b), return ints([&](int k) { return a.i[k] | b.i[k]; });)
ARGON_EMULATED(add_epi8, I, (I a, I b), uint8_t x[64], y[64]; std::memcpy(x, &a, 64); std::memcpy(y, &b, 64);
               for (int k = 0; k < 64; ++k) x[k] = static_cast<uint8_t>(x[k] + y[k]); return load<I>(x);)
ARGON_EMULATED(set1_epi8, I, (char v), I r; std::memset(&r, v, sizeof r); return r;)
ARGON_EMULATED(castsi128, I, (__m128i v), I r{}; std::memcpy(&r, &v, 16); return r;)
ARGON_EMULATED(inserti32x4, I, (I a, __m128i v, int quarter), std::memcpy(a.i + 4 * quarter, &v, 16);
               return a;)
ARGON_EMULATED(storeu_si512, void, (void* p, I v), std::memcpy(p, &v, 64);)
// The second operand where both are zeros or one is a NaN.
ARGON_EMULATED(max_ps, F, (F a, F b),
               return floats([&](int k) { return a.f[k] > b.f[k] ? a.f[k] : b.f[k]; });)
ARGON_EMULATED(shuffle_ps, F, (F a, F b, int which), return floats([&](int k) {
                 return (k % 4 < 2 ? a : b).f[k / 4 * 4 + (which >> 2 * (k % 4) & 3)];
               });)
template <class Compare>
inline unsigned mask_of(Compare compare) {
  unsigned m = 0;
  for (int k = 0; k < 16; ++k) m |= static_cast<unsigned>(compare(k)) << k;
  return m;
}
ARGON_EMULATED(cmpge_mask, unsigned, (I a, I b), return mask_of([&](int k) { return a.i[k] >= b.i[k]; });)
ARGON_EMULATED(cmpgt_mask, unsigned, (I a, I b), return mask_of([&](int k) { return a.i[k] > b.i[k]; });)
ARGON_EMULATED(cmpeq_mask, unsigned, (I a, I b), return mask_of([&](int k) { return a.i[k] == b.i[k]; });)
ARGON_EMULATED(compressstoreu, void, (int32_t * p, unsigned m, I v),
               for (int k = 0; k < 16; ++k) if (m >> k & 1) * p++ = v.i[k];)
}  // namespace argon::emulated

#define _mm512_setzero_ps ::argon::emulated::emulated_setzero_ps
#define _mm512_setzero_si512 ::argon::emulated::emulated_setzero_si512
#define _mm512_set1_ps ::argon::emulated::emulated_set1_ps
#define _mm512_set1_epi32 ::argon::emulated::set1
#define _mm512_loadu_ps ::argon::emulated::emulated_loadu_ps
#define _mm512_loadu_si512 ::argon::emulated::emulated_loadu_si512
#define _mm512_storeu_ps ::argon::emulated::emulated_storeu_ps
#define _mm512_add_ps ::argon::emulated::emulated_add_ps
#define _mm512_sub_ps ::argon::emulated::emulated_sub_ps
#define _mm512_mul_ps ::argon::emulated::emulated_mul_ps
#define _mm512_fmadd_ps ::argon::emulated::emulated_fmadd_ps
#define _mm512_fnmadd_ps ::argon::emulated::emulated_fnmadd_ps
#define _mm512_cvtepi32_ps ::argon::emulated::emulated_cvtepi32_ps
#define _mm512_mask_storeu_ps ::argon::emulated::emulated_mask_storeu_ps
#define _mm512_cvtph_ps ::argon::emulated::emulated_cvtph_ps
#define _mm512_cvtepu16_epi32 ::argon::emulated::emulated_cvtepu16_epi32
#define _mm512_slli_epi32 ::argon::emulated::emulated_slli_epi32
#define _mm512_castsi512_ps ::argon::emulated::emulated_castsi512_ps
#define _mm512_srli_epi32 ::argon::emulated::emulated_srli_epi32
#define _mm512_and_si512 ::argon::emulated::emulated_and_si512
#define _mm512_or_si512 ::argon::emulated::emulated_or_si512
#define _mm512_add_epi8 ::argon::emulated::emulated_add_epi8
#define _mm512_set1_epi8 ::argon::emulated::emulated_set1_epi8
#define _mm512_castsi128_si512 ::argon::emulated::emulated_castsi128
#define _mm512_inserti32x4 ::argon::emulated::emulated_inserti32x4
#define _mm512_storeu_si512 ::argon::emulated::emulated_storeu_si512
#define _mm512_castps_si512 ::argon::emulated::emulated_castps_si512
#define _mm512_max_ps ::argon::emulated::emulated_max_ps
#define _mm512_shuffle_ps ::argon::emulated::emulated_shuffle_ps
#define _mm512_cmpge_epi32_mask ::argon::emulated::emulated_cmpge_mask
#define _mm512_cmpgt_epi32_mask ::argon::emulated::emulated_cmpgt_mask
#define _mm512_cmpeq_epi32_mask ::argon::emulated::emulated_cmpeq_mask
#define _mm512_mask_compressstoreu_epi32 ::argon::emulated::emulated_compressstoreu
#define _mm512_castps512_ps256(v) ::argon::emulated::emulated_half256((v).f)
#define _mm512_extractf32x8_ps(v, half) ::argon::emulated::emulated_half256((v).f + 8 * (half))
#define _mm512_dpbusd_epi32 ::argon::emulated::dpbusd
#define _mm512_unpacklo_epi32(a, b) ::argon::emulated::unpack32(a, b, 0)
#define _mm512_unpackhi_epi32(a, b) ::argon::emulated::unpack32(a, b, 2)
#define _mm512_unpacklo_epi64(a, b) ::argon::emulated::unpack64(a, b, 0)
#define _mm512_unpackhi_epi64(a, b) ::argon::emulated::unpack64(a, b, 2)
#define _mm512_shuffle_i32x4 ::argon::emulated::quarters
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#define _tile_loadconfig ::argon::emulated::tile_loadconfig
#define _tile_release ::argon::emulated::tile_release
#define _tile_zero ::argon::emulated::tile_zero
#define _tile_loadd ::argon::emulated::tile_load
#define _tile_stored ::argon::emulated::tile_store
#define _tile_dpbssd ::argon::emulated::tile_dpbssd
