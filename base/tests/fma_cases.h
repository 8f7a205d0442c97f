// Random and adversarial triples for fma32: ties, cancellation, results near overflow and near the smallest
// normal.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/exact_math.h"

namespace argon::testing {

class FmaCases {
 public:
  explicit FmaCases(uint64_t seed) : state_(seed) {}

  void next(float& a, float& b, float& c) {
    const uint64_t r = word();
    switch (r % 8) {
      case 0:  // any bits
        a = any();
        b = any();
        c = any();
        return;
      case 1:  // like size
        a = value(static_cast<int>((r >> 8) % 60) - 30);
        b = value(static_cast<int>((r >> 16) % 60) - 30);
        c = value(static_cast<int>((r >> 24) % 120) - 60);
        return;
      case 2:  // c near -a*b: cancellation down to the last bits
        a = value(static_cast<int>((r >> 8) % 100) - 50);
        b = value(static_cast<int>((r >> 16) % 100) - 50);
        c = nudge(-(a * b), static_cast<int>((r >> 24) % 7) - 3);
        return;
      case 3: {  // exact ties and their neighbours: a short product far below or just below the unit of c
        const int e = static_cast<int>((r >> 8) % 100) - 50;
        c = value(e);
        a = std::ldexp(1.0f + static_cast<float>((r >> 16) % 4) * 0.25f, e - 24);
        b = nudge(1.0f, static_cast<int>((r >> 24) % 5) - 2);
        if (r >> 63) a = -a;
        return;
      }
      case 4:  // c far below the product: it decides ties of the product alone
        a = f32_from_bits(f32_bits(value(static_cast<int>((r >> 8) % 40) - 20)) & ~0xfffu);
        b = f32_from_bits(f32_bits(value(static_cast<int>((r >> 16) % 40) - 20)) & ~0x7ffu);
        c = value(-static_cast<int>((r >> 24) % 126));
        return;
      case 5:  // near overflow
        a = value(static_cast<int>((r >> 8) % 4) + 62);
        b = value(static_cast<int>((r >> 16) % 4) + 62);
        c = value(static_cast<int>((r >> 24) % 30) + 98);
        return;
      case 6:  // near the smallest normal number
        a = value(static_cast<int>((r >> 8) % 8) - 66);
        b = value(static_cast<int>((r >> 16) % 8) - 66);
        c = value(-126 + static_cast<int>((r >> 24) % 4));
        return;
      default: {  // just below the smallest normal number, where rounding decides between it and zero
        const float min_normal = f32_from_bits(0x00800000u);
        c = nudge(min_normal, static_cast<int>((r >> 8) % 3));
        if ((r >> 62) & 1) c = -c;
        a = value(-100 - static_cast<int>((r >> 16) % 3));
        b = value(-50 - static_cast<int>((r >> 24) % 6));
        return;
      }
    }
  }

 private:
  uint64_t word() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float any() { return f32_from_bits(static_cast<uint32_t>(word() >> 16)); }
  // Random sign and significand, exponent e; one in four has a short significand, one in four many trailing
  // ones.
  float value(int e) {
    const uint64_t r = word();
    uint32_t m = static_cast<uint32_t>(r) & 0x7fffffu;
    if ((r >> 40) % 4 == 0) m &= 0x700000u;
    if ((r >> 40) % 4 == 1) m |= 0x07ffffu;
    return f32_from_bits((static_cast<uint32_t>(r >> 32) & 0x80000000u) |
                         (static_cast<uint32_t>(e + 127) << 23) | m);
  }
  static float nudge(float x, int steps) { return f32_from_bits(f32_bits(x) + static_cast<uint32_t>(steps)); }

  uint64_t state_;
};

}  // namespace argon::testing
