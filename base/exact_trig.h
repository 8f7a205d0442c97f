// Cosine, sine and powers in float64 by the project's own code, for the rotary table (NUMERICS.md, ground
// rules): the system's libm differs between platforms. Only sums, products, divisions and integer operations
// of float64, each rounded once, no fma, so every IEEE platform gives the same bits. Used when a table is
// made, never in a kernel.
#pragma once

#include <cstdint>

namespace argon {

// cos(x) and sin(x) for |x| <= 1e7 radians: within 1 ulp of float64 where the result is above 1e-5 in size,
// nearer zero within 2^-85 of the true value; narrowed to float32, the correctly rounded result in every
// test. Beyond, or not finite: NaN.
double exact_cos(double x);
double exact_sin(double x);

// f32(base^(-2i/rot)): the angle per position of rotary pair i of rot/2. base is a finite positive normal
// number, 0 <= i < rot/2. The power is computed to about 2^-49, so the float32 is the correctly rounded one
// but for cases that lie that close to a rounding boundary (none for the bases and sizes in the tests).
float rope_theta(float base, int64_t i, int64_t rot);

}  // namespace argon
