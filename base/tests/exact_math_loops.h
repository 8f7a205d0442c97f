// The same loops over base/exact_math.h, compiled for plain x86-64 (software fma) and for AVX2 (vectorised).
#pragma once

#include <cstdint>

namespace argon::testing {

enum class MathFn { kExp, kLog, kLog1p, kSigmoid, kSilu, kSoftplus };
constexpr MathFn kMathFns[] = {MathFn::kExp,     MathFn::kLog,  MathFn::kLog1p,
                               MathFn::kSigmoid, MathFn::kSilu, MathFn::kSoftplus};

// Loops run over whole blocks of this many values: a count known when compiling is what GCC vectorises at
// -O2.
constexpr int kLoopBlock = 256;

// out[i] = fn(in[i]) for kLoopBlock values; in and out do not overlap.
void loop_base(MathFn fn, const float* in, float* out);
void loop_avx2(MathFn fn, const float* in, float* out);

// out[i] = fma32(a[i], b[i], c[i]) for kLoopBlock values.
void fma_loop_base(const float* a, const float* b, const float* c, float* out);
void fma_loop_avx2(const float* a, const float* b, const float* c, float* out);

// The conversions of base/half.h, kLoopBlock codes or values each.
void widen_loop_base(const uint16_t* in, float* f16, float* bf16);
void widen_loop_avx2(const uint16_t* in, float* f16, float* bf16);
void narrow_loop_base(const float* in, uint16_t* f16, uint16_t* bf16);
void narrow_loop_avx2(const float* in, uint16_t* f16, uint16_t* bf16);

}  // namespace argon::testing
