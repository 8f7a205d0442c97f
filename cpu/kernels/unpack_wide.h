// 32 codes and their steps for the kernels on wide.h: formats whose codes are bytes or plain nibbles are
// unpacked in registers, the others by their own code, which the compiler makes vectors of where it can (one
// copy each: 16 of them in a loop take minutes to compile).
#pragma once

#include "cpu/kernels/wide.h"
#include "cpu/kernels/with_format.h"
#include "formats/floats.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// kLeadingHalf: the block begins with sw as an f16, and there is no minimum.
template <class Format>
struct Unpack {
  static constexpr bool kLeadingHalf = false;
  [[gnu::noinline]] static Codes32 codes(const uint8_t* block, int sub, Steps* s) {
    alignas(32) int8_t c[32];
    Format::unpack32(block, sub, c, s);
    return load_codes(c);
  }
};

template <>
struct Unpack<Q8_0> {
  static constexpr bool kLeadingHalf = true;
  static Codes32 codes(const uint8_t* block, int, Steps* s) {
    s->sw[0] = half_at(block);
    return load_codes(block + 2);
  }
};

template <>
struct Unpack<Q4_0> {
  static constexpr bool kLeadingHalf = true;
  static Codes32 codes(const uint8_t* block, int, Steps* s) {
    s->sw[0] = half_at(block);
    return minus(nibbles(block + 2), 8);
  }
};

template <>
struct Unpack<Q4_1> {
  static constexpr bool kLeadingHalf = false;
  static Codes32 codes(const uint8_t* block, int, Steps* s) {
    s->sw[0] = half_at(block);
    s->mw[0] = -half_at(block + 2);
    return nibbles(block + 4);
  }
};

template <>
struct Unpack<Q4_K> {
  static constexpr bool kLeadingHalf = false;
  static Codes32 codes(const uint8_t* block, int sub, Steps* s) {
    const Q4_K::Layout& b = *reinterpret_cast<const Q4_K::Layout*>(block);
    float scale, min;
    k_scale_min(b.scales, sub, &scale, &min);
    s->sw[0] = half_at(b.d) * scale;
    s->mw[0] = half_at(b.dmin) * min;
    return nibble_of(load_codes(b.q + 32 * (sub / 2)), 4 * (sub % 2));
  }
};

template <>
struct Unpack<IQ4_NL> {
  static constexpr bool kLeadingHalf = true;
  static Codes32 codes(const uint8_t* block, int, Steps* s) {
    s->sw[0] = half_at(block);
    return look_up(nibbles(block + 2), kIq4Values);
  }
};

template <>
struct Unpack<IQ4_XS> {
  static constexpr bool kLeadingHalf = false;
  static Codes32 codes(const uint8_t* block, int sub, Steps* s) {
    const IQ4_XS::Layout& b = *reinterpret_cast<const IQ4_XS::Layout*>(block);
    const int low = b.scales_l[sub / 2] >> 4 * (sub & 1) & 15;
    const int high = static_cast<int>(load_u16(b.scales_h) >> 2 * sub & 3);
    s->sw[0] = half_at(b.d) * static_cast<float>((low | high << 4) - 32);
    return look_up(nibbles(b.q + 16 * sub), kIq4Values);
  }
};

template <>
struct Unpack<MXFP4> {
  static constexpr bool kLeadingHalf = false;
  static Codes32 codes(const uint8_t* block, int, Steps* s) {
    s->sw[0] = f32_from_bits(block[0] < 2 ? 0u : (block[0] - 1u) << 23);
    return look_up(nibbles(block + 1), kE2m1Doubled);
  }
};

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
