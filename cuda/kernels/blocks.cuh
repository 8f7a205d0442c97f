// Weight types that have kernels of their own: how a lane gets 16 codes of a block of 32 (half 0: values
// 0-15, half 1: 16-31) and the block's scale and minimum. Rows are rows of one matrix at `data`; n = K/32.
#pragma once

#include "cuda/device.cuh"
#include "cuda/kernels/unpack.cuh"

namespace argon::cuda {

__device__ inline int4 load16(const uint8_t* p) { return __ldg(reinterpret_cast<const int4*>(p)); }

// Byte k of the result is table[nibble k of the low 16 bits of `nibbles`], the table in four words.
__device__ inline int look_up4(const uint32_t* table, uint32_t nibbles) {
  const uint32_t low = nibbles & 0x7777u;
  const uint32_t a = __byte_perm(table[0], table[1], low), b = __byte_perm(table[2], table[3], low);
  return static_cast<int>(__byte_perm(a, b, 0x3210u | (nibbles & 0x8888u) >> 1));
}

// The low (half 0) or high nibbles of 4 bytes, one to a byte.
__device__ inline uint32_t nibbles_of(int word, int half) {
  return static_cast<uint32_t>(word) >> 4 * half & 0x0f0f0f0fu;
}

__device__ inline float split_scale(const WeightView& w, const uint8_t* data, int64_t block) {
  return f16_to_f32(__ldg(reinterpret_cast<const uint16_t*>(data + w.scales) + block));
}

// Scale and minimum of a step; the minimum is read by types that have one.
struct Scale {
  float sw, mw;
};

struct SplitQ8_0 {
  static constexpr bool kMin = false;
  __device__ static int4 codes(const WeightView&, const uint8_t* data, int64_t m, int n, int b, int half) {
    return load16(data + (m * n + b) * 32 + half * 16);
  }
  __device__ static Scale scale(const WeightView& w, const uint8_t* data, int64_t m, int n, int b) {
    return {split_scale(w, data, m * n + b), 0.0f};
  }
};

struct SplitQ4_0 {
  static constexpr bool kMin = false;
  __device__ static int4 codes(const WeightView&, const uint8_t* data, int64_t m, int n, int b, int half) {
    const int4 q = load16(data + (m * n + b) * 16);
    const auto minus8 = [half](int word) {
      return static_cast<int>(((nibbles_of(word, half) | 0x80808080u) - 0x08080808u) ^ 0x80808080u);
    };
    return {minus8(q.x), minus8(q.y), minus8(q.z), minus8(q.w)};
  }
  __device__ static Scale scale(const WeightView& w, const uint8_t* data, int64_t m, int n, int b) {
    return {split_scale(w, data, m * n + b), 0.0f};
  }
};

struct SplitIQ4_NL {
  static constexpr bool kMin = false;
  __device__ static int4 codes(const WeightView&, const uint8_t* data, int64_t m, int n, int b, int half) {
    // kIq4Values as words.
    const uint32_t table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
    const int4 q = load16(data + (m * n + b) * 16);
    const auto values = [&](int word) {
      const uint32_t v = nibbles_of(word, half);
      return look_up4(table, __byte_perm(v | v >> 4, 0, 0x4420));
    };
    return {values(q.x), values(q.y), values(q.z), values(q.w)};
  }
  __device__ static Scale scale(const WeightView& w, const uint8_t* data, int64_t m, int n, int b) {
    return {split_scale(w, data, m * n + b), 0.0f};
  }
};

// As in the file: 144-byte blocks of 256, 16-byte aligned.
struct FileQ4_K {
  static constexpr bool kMin = true;
  __device__ static int4 codes(const WeightView& w, const uint8_t* data, int64_t m, int, int b, int half) {
    const int4 q = load16(data + m * w.row_bytes + b / 8 * 144 + 16 + b % 8 / 2 * 32 + half * 16);
    const int high = b & 1;
    return {static_cast<int>(nibbles_of(q.x, high)), static_cast<int>(nibbles_of(q.y, high)),
            static_cast<int>(nibbles_of(q.z, high)), static_cast<int>(nibbles_of(q.w, high))};
  }
  __device__ static Scale scale(const WeightView& w, const uint8_t* data, int64_t m, int, int b) {
    const int4 head = load16(data + m * w.row_bytes + b / 8 * 144);
    const uint32_t d = static_cast<uint32_t>(head.x);
    const int i = b % 8, byte = 8 * (i % 4);
    // Six-bit scales and minima (formats/q4_k.h): words y, z hold those of 0-3, w the low nibbles of 4-7.
    const uint32_t s = static_cast<uint32_t>(head.y) >> byte, m6 = static_cast<uint32_t>(head.z) >> byte;
    const uint32_t low = static_cast<uint32_t>(head.w) >> byte;
    const uint32_t sc = i < 4 ? s & 63 : (low & 15) | (s >> 2 & 48);
    const uint32_t mn = i < 4 ? m6 & 63 : (low >> 4 & 15) | (m6 >> 2 & 48);
    return {f16_to_f32(static_cast<uint16_t>(d)) * static_cast<float>(sc),
            f16_to_f32(static_cast<uint16_t>(d >> 16)) * static_cast<float>(mn)};
  }
};

}  // namespace argon::cuda
