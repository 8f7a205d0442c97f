// The uniform view of every quantised weight type: 32 values = 32 int8 codes and one or two steps
// (NUMERICS.md, matrix products). Each formats/<type>.h defines, in ARGON_ISA_NS (base/isa_namespace.h says
// why), a struct with
//   kBlockValues, kBlockBytes   values and bytes of one stored block
//   kSteps, kHasMin             what unpack32 puts into Steps::n and Steps::has_min
//   Layout                      the stored bytes (all members are byte arrays: blocks need no alignment;
//   little endian) unpack32(block, sub, codes, steps)   values 32*sub .. 32*sub+31 of a block
// so kernels can be templates over the format. Codes fit -127..127 (Q8_0 and Q6_K: -128..127 and -32..31).
#pragma once

#include "base/exact_math.h"
#include "base/half.h"

// What the three languages say differently; base/exact_math.h defines ARGON_MATH_FN.
//   ARGON_TABLE         declares a table that codecs index at run time (nvcc wants the copy that device code
//                       reads in device memory)
//   ARGON_MEMBER_CONST  a constant of a struct
//   ARGON_STORED, ARGON_OWN  in front of a pointer or reference to a stored block, to a caller's variable
#if defined(__METAL_VERSION__)
#define ARGON_TABLE constant constexpr
#define ARGON_MEMBER_CONST static constant constexpr
#define ARGON_STORED device
#define ARGON_OWN thread
#else
#if defined(__CUDA_ARCH__)
#define ARGON_TABLE static __device__ constexpr
#else
#define ARGON_TABLE inline constexpr
#endif
#define ARGON_MEMBER_CONST static constexpr
#define ARGON_STORED
#define ARGON_OWN
#endif

namespace argon {

// Step i covers codes 32/n*i .. 32/n*(i+1)-1. Value = code*sw[i] rounded once; with has_min fma(code, sw[i],
// -mw[i]). sw and mw are the scale and the minimum as one float32 each (d * sub-scale, rounded once).
struct Steps {
  int32_t n;
  bool has_min;
  float sw[2];
  float mw[2];
};

inline namespace ARGON_ISA_NS {

ARGON_MATH_FN uint32_t load_u16(ARGON_STORED const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
}
ARGON_MATH_FN uint32_t load_u32(ARGON_STORED const uint8_t* p) { return load_u16(p) | load_u16(p + 2) << 16; }
ARGON_MATH_FN float load_f16(ARGON_STORED const uint8_t* p) {
  return f16_to_f32(static_cast<uint16_t>(load_u16(p)));
}

ARGON_MATH_FN void set_step(ARGON_OWN Steps* s, float sw) {
  s->n = 1;
  s->has_min = false;
  s->sw[0] = sw;
  s->sw[1] = 0.0f;
  s->mw[0] = 0.0f;
  s->mw[1] = 0.0f;
}
ARGON_MATH_FN void set_step_min(ARGON_OWN Steps* s, float sw, float mw) {
  set_step(s, sw);
  s->has_min = true;
  s->mw[0] = mw;
}
ARGON_MATH_FN void set_two_steps(ARGON_OWN Steps* s, float sw0, float sw1) {
  set_step(s, sw0);
  s->n = 2;
  s->sw[1] = sw1;
}

// 16 bytes to 32 nibbles, low nibbles first, minus `offset`.
ARGON_MATH_FN void unpack_nibbles(ARGON_STORED const uint8_t* q, int offset, ARGON_OWN int8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = static_cast<int8_t>((q[j] & 15) - offset);
    codes[j + 16] = static_cast<int8_t>((q[j] >> 4) - offset);
  }
}

#if !defined(__METAL_VERSION__)
// Rows of any format by its unpack32: `n` values (a multiple of kBlockValues) at `row` to float32.
template <class Format>
inline void dequant_row_as(const void* row, int64_t n, float* out) {
  const uint8_t* block = static_cast<const uint8_t*>(row);
  for (int64_t i = 0; i < n; i += Format::kBlockValues, block += Format::kBlockBytes) {
    for (int sub = 0; sub < Format::kBlockValues / 32; ++sub) {
      int8_t codes[32];
      Steps s;
      Format::unpack32(block, sub, codes, &s);
      float* y = out + i + 32 * sub;
      for (int j = 0; j < 32; ++j) {
        const int step = Format::kSteps == 2 ? j / 16 : 0;
        const float code = static_cast<float>(codes[j]);
        y[j] = Format::kHasMin ? fma32(code, s.sw[step], -s.mw[step]) : code * s.sw[step];
      }
    }
  }
}
#endif

}  // namespace ARGON_ISA_NS
}  // namespace argon
