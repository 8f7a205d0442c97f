// The 16-lane vectors of wide.h on AArch64: four registers each, and the int8 dot product.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "base/exact_math.h"
#include "base/isa_namespace.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

struct Floats16 {
  float32x4_t v[4];
};
struct Ints16 {
  int32x4_t v[4];
};
struct Codes32 {
  int8x16_t v[2];
};

// Rows of x that a tile of W is multiplied with at a time.
inline constexpr int kPromptRows = 4;
// Rows of W and of x that a product of floats takes at a time.
inline constexpr int kFloatRows = 1, kFloatColumns = 3;

#define ARGON_EACH4(type, expression)                                      \
  type r;                                                                  \
  _Pragma("GCC unroll 4") for (int i = 0; i < 4; ++i) r.v[i] = expression; \
  return r

inline Floats16 set16(float v) { ARGON_EACH4(Floats16, vdupq_n_f32(v)); }
inline Floats16 zero16() { return set16(0.0f); }
inline Floats16 load16(const float* p) { ARGON_EACH4(Floats16, vld1q_f32(p + 4 * i)); }
inline void store16(float* p, Floats16 x) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.v[i]);
}
inline Floats16 add16(Floats16 a, Floats16 b) { ARGON_EACH4(Floats16, vaddq_f32(a.v[i], b.v[i])); }
inline Floats16 mul16(Floats16 a, Floats16 b) { ARGON_EACH4(Floats16, vmulq_f32(a.v[i], b.v[i])); }
inline Floats16 fma16(Floats16 a, Floats16 b, Floats16 c) {
  ARGON_EACH4(Floats16, vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
inline Floats16 fnma16(Floats16 a, Floats16 b, Floats16 c) {
  ARGON_EACH4(Floats16, vfmsq_f32(c.v[i], a.v[i], b.v[i]));
}
inline Floats16 to_floats(Ints16 x) { ARGON_EACH4(Floats16, vcvtq_f32_s32(x.v[i])); }

// The first `count` floats of y become v, or y + v.
inline void store_some(float* y, Floats16 v, int count) {
  if (count == 16) return store16(y, v);
  float lanes[16];
  store16(lanes, v);
  for (int i = 0; i < count; ++i) y[i] = lanes[i];
}
inline void add_some(float* y, Floats16 v, int count) {
  if (count == 16) return store16(y, add16(load16(y), v));
  float lanes[16];
  store16(lanes, v);
  for (int i = 0; i < count; ++i) y[i] = y[i] + lanes[i];
}

// The last four steps of fold32.
inline float fold16(Floats16 x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

inline float root32(float x) { return __builtin_sqrtf(x); }

// 16 halves and 16 bfloat16s, exactly, subnormals as they are (FZ does not reach conversions from f16).
inline Floats16 load16_f16(const uint8_t* p) {
  ARGON_EACH4(Floats16, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i))));
}
inline Floats16 load16_bf16(const uint8_t* p) {
  ARGON_EACH4(Floats16, vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)), 16)));
}
inline float half_at(const uint8_t* p) {
  float16_t h;
  std::memcpy(&h, p, 2);
  return static_cast<float>(h);
}

// 32 codes.
inline Codes32 load_codes(const void* p) {
  const int8_t* c = static_cast<const int8_t*>(p);
  return {{vld1q_s8(c), vld1q_s8(c + 16)}};
}
inline Codes32 no_codes() { return {{vdupq_n_s8(0), vdupq_n_s8(0)}}; }
// 16 bytes to 32 nibbles, low nibbles first.
inline Codes32 nibbles(const uint8_t* p) {
  const uint8x16_t q = vld1q_u8(p);
  return {{vreinterpretq_s8_u8(vandq_u8(q, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(q, 4))}};
}
// Nibble `shift`/4 of each byte.
inline Codes32 nibble_of(Codes32 x, int shift) {
  Codes32 r;
  for (int i = 0; i < 2; ++i) {
    const uint8x16_t moved = vshlq_u8(vreinterpretq_u8_s8(x.v[i]), vdupq_n_s8(static_cast<int8_t>(-shift)));
    r.v[i] = vreinterpretq_s8_u8(vandq_u8(moved, vdupq_n_u8(15)));
  }
  return r;
}
inline Codes32 minus(Codes32 x, int8_t offset) {
  return {{vsubq_s8(x.v[0], vdupq_n_s8(offset)), vsubq_s8(x.v[1], vdupq_n_s8(offset))}};
}
inline Codes32 look_up(Codes32 index, const int8_t* table) {
  const int8x16_t t = vld1q_s8(table);
  return {{vqtbl1q_s8(t, vreinterpretq_u8_s8(index.v[0])), vqtbl1q_s8(t, vreinterpretq_u8_s8(index.v[1]))}};
}

// 16 rows of 8 groups of four codes, group-major: out[group][row][4].
inline void interleave_rows(const Codes32* rows, int8_t* out) {
  for (int q = 0; q < 4; ++q) {
    for (int half = 0; half < 2; ++half) {
      const auto row = [&](int i) { return vreinterpretq_s32_s8(rows[4 * q + i].v[half]); };
      const int32x4x2_t a = vtrnq_s32(row(0), row(1)), b = vtrnq_s32(row(2), row(3));
      const auto put = [&](int group, int32x2_t low, int32x2_t high) {
        vst1q_s8(out + 64 * (4 * half + group) + 16 * q, vreinterpretq_s8_s32(vcombine_s32(low, high)));
      };
      put(0, vget_low_s32(a.val[0]), vget_low_s32(b.val[0]));
      put(1, vget_low_s32(a.val[1]), vget_low_s32(b.val[1]));
      put(2, vget_high_s32(a.val[0]), vget_high_s32(b.val[0]));
      put(3, vget_high_s32(a.val[1]), vget_high_s32(b.val[1]));
    }
  }
}

inline Ints16 zero_ints() { ARGON_EACH4(Ints16, vdupq_n_s32(0)); }
inline Ints16 load_ints(const int32_t* p) { ARGON_EACH4(Ints16, vld1q_s32(p + 4 * i)); }
inline void store_ints(int32_t* p, Ints16 x) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, x.v[i]);
}
inline Ints16 add_ints(Ints16 a, Ints16 b) { ARGON_EACH4(Ints16, vaddq_s32(a.v[i], b.v[i])); }

// A pair of 16-bit sums of x's codes, times (low, high), added, in every lane.
inline Ints16 weighted_sums(const int16_t* sums, int low, int high) {
  const int32x4_t sum = vdupq_n_s32(sums[0] * low + sums[1] * high);
  return {{sum, sum, sum, sum}};
}

// Integer dots of kGroups groups of four codes: lane = row of a tile, w as interleave_rows left it. dot[t]
// starts from its value.
template <int kGroups, int NT>
inline void tile_dots(const int8_t* w, const int8_t* const* x, int64_t at, Ints16* dot) {
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) {
    int8x16_t wv[4];
    for (int i = 0; i < 4; ++i) wv[i] = vld1q_s8(w + 64 * g + 16 * i);
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t) {
      int32_t four;
      std::memcpy(&four, x[t] + at + 4 * g, 4);
      const int8x16_t xv = vreinterpretq_s8_s32(vdupq_n_s32(four));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) dot[t].v[i] = vdotq_s32(dot[t].v[i], wv[i], xv);
    }
  }
}

// Dots of 16 rows' blocks of 32 codes with one block of x, a lane being a row: low and high are those of the
// block's halves.
inline void row_dots(const Codes32* w, Codes32 x, Ints16* low, Ints16* high) {
  for (int q = 0; q < 4; ++q) {
    for (int half = 0; half < 2; ++half) {
      const auto dot = [&](int i) { return vdotq_s32(vdupq_n_s32(0), w[4 * q + i].v[half], x.v[half]); };
      (half == 0 ? low : high)->v[q] = vpaddq_s32(vpaddq_s32(dot(0), dot(1)), vpaddq_s32(dot(2), dot(3)));
    }
  }
}

#undef ARGON_EACH4

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
