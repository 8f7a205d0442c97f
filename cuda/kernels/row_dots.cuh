// Dots of one row of x with 16-byte pieces of weights, for kernels that take a tile of rows as one run of
// pieces: each piece's dot goes to its place in shared memory, exact in any order.
#pragma once

#include "cuda/kernels/blocks.cuh"

namespace argon::cuda {

__device__ inline int dot_piece(int4 a, int4 b) {
  return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, 0))));
}
__device__ inline int4 load_codes(const int8_t* x, int at) { return reinterpret_cast<const int4*>(x)[at]; }

__device__ inline int4 low_nibbles(int4 q) {
  return {q.x & 0x0f0f0f0f, q.y & 0x0f0f0f0f, q.z & 0x0f0f0f0f, q.w & 0x0f0f0f0f};
}
__device__ inline int4 high_nibbles(int4 q) {
  return {q.x >> 4 & 0x0f0f0f0f, q.y >> 4 & 0x0f0f0f0f, q.z >> 4 & 0x0f0f0f0f, q.w >> 4 & 0x0f0f0f0f};
}

// How the 16-byte pieces of a tile become dots. kEighths: pieces per 8 blocks of 32. dots() is handed piece
// `c` of the tile, which is piece `at` of its row.
struct RowQ8_0 {
  static constexpr int kEighths = 16;
  static constexpr bool kMin = false, kHalves = true;
  __device__ static void dots(int* partial, int4* head, int4 w, int c, int at, const int8_t* x) {
    partial[c] = dot_piece(w, load_codes(x, at));
  }
};

template <class Values>
struct RowNibbles {
  static constexpr int kEighths = 8;
  static constexpr bool kMin = false, kHalves = false;
  __device__ static void dots(int* partial, int4* head, int4 w, int c, int at, const int8_t* x) {
    const int4 low = Values::of(low_nibbles(w)), high = Values::of(high_nibbles(w));
    partial[c] = dot_piece(low, load_codes(x, 2 * at)) + dot_piece(high, load_codes(x, 2 * at + 1));
  }
};
struct Minus8 {
  __device__ static int one(int v) {
    return static_cast<int>(((static_cast<uint32_t>(v) | 0x80808080u) - 0x08080808u) ^ 0x80808080u);
  }
  __device__ static int4 of(int4 v) { return {one(v.x), one(v.y), one(v.z), one(v.w)}; }
};
struct Iq4Table {
  __device__ static int one(int word) {
    const uint32_t table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
    const auto v = static_cast<uint32_t>(word);
    return look_up4(table, __byte_perm(v | v >> 4, 0, 0x4420));
  }
  __device__ static int4 of(int4 v) { return {one(v.x), one(v.y), one(v.z), one(v.w)}; }
};
using RowQ4_0 = RowNibbles<Minus8>;
using RowIQ4_NL = RowNibbles<Iq4Table>;

// 144 bytes for 8 blocks: scales, then pieces that hold a half of two neighbouring blocks.
struct RowQ4_K {
  static constexpr int kEighths = 9;
  static constexpr bool kMin = true, kHalves = true;
  __device__ static void dots(int* partial, int4* head, int4 w, int c, int at, const int8_t* x) {
    const int piece = at % 9 - 1, group = c / 9;
    if (piece < 0) {
      head[group] = w;
      return;
    }
    const int half = piece % 2, pair = piece / 2 * 4 + half;  // half of block 2*(piece/2)
    const int from = at / 9 * 16 + pair;
    partial[group * 16 + pair] = dot_piece(low_nibbles(w), load_codes(x, from));
    partial[group * 16 + pair + 2] = dot_piece(high_nibbles(w), load_codes(x, from + 2));
  }
  // Scale and minimum of block b of the tile.
  __device__ static Scale scale(const int4* heads, int b) {
    const int4 head = heads[b / 8];
    const auto d = static_cast<uint32_t>(head.x);
    const int i = b % 8, byte = 8 * (i % 4);
    const uint32_t sc6 = static_cast<uint32_t>(head.y) >> byte, m6 = static_cast<uint32_t>(head.z) >> byte;
    const uint32_t low = static_cast<uint32_t>(head.w) >> byte;
    const uint32_t sc = i < 4 ? sc6 & 63 : (low & 15) | (sc6 >> 2 & 48);
    const uint32_t mn = i < 4 ? m6 & 63 : (low >> 4 & 15) | (m6 >> 2 & 48);
    return {f16_to_f32(static_cast<uint16_t>(d)) * static_cast<float>(sc),
            f16_to_f32(static_cast<uint16_t>(d >> 16)) * static_cast<float>(mn)};
  }
};

}  // namespace argon::cuda
