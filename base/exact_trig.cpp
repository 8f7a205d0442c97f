#include "base/exact_trig.h"

#include <limits>

namespace argon {
namespace {

// x = quadrant*(pi/2) + high + low, |high| <= pi/4, |low| an ulp of high or less.
struct Reduced {
  int64_t quadrant;
  double high, low;
};

// Cody and Waite with pi/2 in three parts: the first two have 30 bits, so their products with |n| < 2^23 are
// exact; n times the third, and what the three leave out of pi/2, are each off by less than 2^-90.
Reduced reduce(double x) {
  const double shifter = 6755399441055744.0;  // 1.5*2^52: adding it rounds to an integer
  const double n = (x * 0.6366197723675814 + shifter) - shifter;
  const double a = x - n * 0x1.921fb54p+0;  // exact: a multiple of both operands' units, below 2
  const double b = n * 0x1.10b46118p-30;    // exact
  const double sum = a - b;
  // What a - b lost (Knuth's two-sum), less the third part.
  const double t = sum - a;
  const double rest = ((a - (sum - t)) - (b + t)) - n * 0x1.313198a2e0370p-61;
  const double high = sum + rest;
  return {static_cast<int64_t>(n), high, rest - (high - sum)};
}

// Taylor: the terms left out are below 2^-70 of the result for |r| <= pi/4.
double sin_reduced(double r, double low) {
  const double z = r * r;
  double p = 1.0 / 355687428096000.0;  // 1/17!
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + ((r * z) * p + low * (1.0 - 0.5 * z));
}

double cos_reduced(double r, double low) {
  const double z = r * r;
  double p = 1.0 / 6402373705728000.0;  // 1/18!
  p = 1.0 / 20922789888000.0 - p * z;
  p = 1.0 / 87178291200.0 - p * z;
  p = 1.0 / 479001600.0 - p * z;
  p = 1.0 / 3628800.0 - p * z;
  p = 1.0 / 40320.0 - p * z;
  p = 1.0 / 720.0 - p * z;
  p = 1.0 / 24.0 - p * z;
  // 1 - z/2 with its rounding error, then the small terms.
  const double half = 0.5 * z;
  const double w = 1.0 - half;
  return w + (((1.0 - w) - half) + (z * z * p - r * low));
}

// sin(x + shift*pi/2).
double shifted_sin(double x, int64_t shift) {
  if (!(x <= 1e7 && x >= -1e7)) return std::numeric_limits<double>::quiet_NaN();
  const Reduced r = reduce(x);
  const int64_t quadrant = (r.quadrant + shift) & 3;
  const double y = quadrant & 1 ? cos_reduced(r.high, r.low) : sin_reduced(r.high, r.low);
  return quadrant & 2 ? -y : y;
}

// ln(x) for a positive normal x, as a sum of a high part with at most 53 bits and a small rest.
struct Sum {
  double high, low;
};

constexpr double kLn2High = 0x1.62e42fefa2p-1;  // 40 bits: exact times an 11-bit exponent
constexpr double kLn2Low = 0x1.9ef35793c7673p-41;

Sum log_sum(double x) {
  uint64_t u = __builtin_bit_cast(uint64_t, x);
  // x = 2^e * m, 0.75 <= m < 1.5
  const int64_t e = static_cast<int64_t>(u - 0x3fe8000000000000u) >> 52;
  u -= static_cast<uint64_t>(e) << 52;
  const double m = __builtin_bit_cast(double, u);
  // ln m = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.2: odd powers up to s^25. `lost` corrects the rounding of s.
  const double f = m - 1.0;
  const double g = m + 1.0;
  const double s = f / g;
  const double z = s * s;
  double p = 0.0;
  for (int k = 25; k >= 3; k -= 2) p = (p + 1.0 / k) * z;
  const double tail = 2.0 * s * p;
  const double a = static_cast<double>(e) * kLn2High;
  const double b = 2.0 * s;
  const double high = a + b;
  const double lost = e == 0 ? 0.0 : b - (high - a);
  return {high, lost + (tail + static_cast<double>(e) * kLn2Low)};
}

// exp(high + low) for results well inside the normal range.
double exp_sum(double high, double low) {
  const double shifter = 6755399441055744.0;
  const double n = (high * 1.4426950408889634 + shifter) - shifter;
  const double r = (high - n * kLn2High) + (low - n * kLn2Low);
  double p = 1.0;
  for (int k = 16; k >= 1; --k) p = 1.0 + p * r / k;
  return __builtin_bit_cast(
      double, __builtin_bit_cast(uint64_t, p) + (static_cast<uint64_t>(static_cast<int64_t>(n)) << 52));
}

}  // namespace

double exact_cos(double x) { return shifted_sin(x, 1); }

double exact_sin(double x) { return shifted_sin(x, 0); }

float rope_theta(float base, int64_t i, int64_t rot) {
  const Sum ln = log_sum(static_cast<double>(base));
  const double ratio = -2.0 * static_cast<double>(i) / static_cast<double>(rot);
  // ratio*high with its rounding error (Dekker's product), so that a large exponent costs no accuracy.
  const double split = 134217729.0;  // 2^27 + 1
  const double ca = ratio * split;
  const double ah = ca - (ca - ratio);
  const double al = ratio - ah;
  const double cb = ln.high * split;
  const double bh = cb - (cb - ln.high);
  const double bl = ln.high - bh;
  const double product = ratio * ln.high;
  const double lost = ((ah * bh - product) + ah * bl + al * bh) + al * bl;
  return static_cast<float>(exp_sum(product, lost + ratio * ln.low));
}

}  // namespace argon
