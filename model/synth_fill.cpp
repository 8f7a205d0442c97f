// Random blocks of every weight type: random codes, and scales such that the weights have the wanted
// deviation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "model/synth.h"

namespace argon {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {  // SplitMix64 (Steele, Lea, Flood 2014)
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

void random_bytes(Random* rng, std::span<std::byte> out) {
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    const uint64_t v = rng->next();
    std::memcpy(out.data() + i, &v, 8);
  }
  if (i < out.size()) {
    const uint64_t v = rng->next();
    std::memcpy(out.data() + i, &v, out.size() - i);
  }
}

void put_half(std::byte* at, double v) {
  const uint16_t h = f32_to_f16(static_cast<float>(v));
  std::memcpy(at, &h, sizeof(h));
}

// What to do with a block of random bytes. `d` is deviation / unit.
struct Recipe {
  WeightType type;
  double unit;  // deviation of the weights when d is 1
  void (*patch)(std::byte* block, double d);
};

// 2-bit codes in which 3 is not wanted (it is no value of a ternary type): 3 becomes 1, the code of 0.
void no_code_3(std::byte* p, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto both = p[i] & (p[i] >> 1) & std::byte{0x55};
    p[i] &= ~(both << 1);
  }
}

template <int Offset>
void scale_at(std::byte* b, double d) {
  put_half(b + Offset, d);
}

// Types with a minimum: d, then the minimum, which centres codes of mean Half/2.
template <int Half>
void scale_and_minimum(std::byte* b, double d) {
  put_half(b, d);
  put_half(b + 2, -d * Half / 2);
}

// Q4_K and Q5_K: 12 bytes hold eight 6-bit scales and eight 6-bit minima. Equal bytes and nibbles make each
// minimum equal to its scale, so that dmin = d * mean code centres the block.
template <int Half>
void k_scales_and_minima(std::byte* b, double d) {
  put_half(b, d);
  put_half(b + 2, d * Half / 2);
  std::byte* s = b + 4;
  for (int j = 0; j < 4; ++j) {
    s[j + 4] = s[j];
    s[j + 8] = (s[j + 8] & std::byte{0x0f}) | (s[j + 8] << 4);
  }
}

void q2_k(std::byte* b, double d) {
  for (int j = 0; j < 16; ++j) b[j] = (b[j] & std::byte{0x0f}) | (b[j] << 4);
  put_half(b + 80, d);
  put_half(b + 82, d * 1.5);
}

// The f16 scale lies in the top nibbles of the four 16-bit words at the end.
void iq1_m(std::byte* b, double d) {
  const uint16_t h = f32_to_f16(static_cast<float>(d));
  for (int j = 0; j < 4; ++j) {
    std::byte& high = b[48 + 2 * j + 1];
    high = (high & std::byte{0x0f}) | static_cast<std::byte>(((h >> (4 * j)) & 0xf) << 4);
  }
}

void tq2_0(std::byte* b, double d) {
  no_code_3(b, 64);
  put_half(b + 64, d);
}
void q2_0(std::byte* b, double d) {
  no_code_3(b + 2, 16);
  put_half(b, d);
}

// e of the factor 2^(e-128) nearest to d.
void mxfp4(std::byte* b, double d) {
  const long e = 128 + std::lround(std::log2(d));
  b[0] = static_cast<std::byte>(std::clamp(e, 1l, 254l));
}

// Four scales, the E4M3 code nearest to 2*d (the table is doubled, the scale halved).
void nvfp4(std::byte* b, double d) {
  const int e = std::ilogb(2 * d);
  const double fraction = std::ldexp(2 * d, -e) - 1;
  const long code = e < -6 ? std::lround(2 * d * 512) : (e + 7) * 8 + std::lround(fraction * 8);
  for (int j = 0; j < 4; ++j) b[j] = static_cast<std::byte>(std::clamp(code, 1l, 126l));
}

// Units: the deviation of uniform codes (n codes: sqrt((n*n-1)/12)) times that of the sub-scales; those of
// the codebook types were measured.
constexpr Recipe kRecipes[] = {
    {WeightType::kQ4_0, 4.61, scale_at<0>},
    {WeightType::kQ4_1, 4.61, scale_and_minimum<15>},
    {WeightType::kQ5_0, 9.23, scale_at<0>},
    {WeightType::kQ5_1, 9.23, scale_and_minimum<31>},
    {WeightType::kQ8_0, 73.9, scale_at<0>},
    {WeightType::kQ2_K, 9.84, q2_k},
    {WeightType::kQ3_K, 42.3, scale_at<108>},
    {WeightType::kQ4_K, 168.0, k_scales_and_minima<15>},
    {WeightType::kQ5_K, 337.0, k_scales_and_minima<31>},
    {WeightType::kQ6_K, 1365.0, scale_at<208>},
    {WeightType::kIQ2_XXS, 53.4, scale_at<0>},
    {WeightType::kIQ2_XS, 56.0, scale_at<0>},
    {WeightType::kIQ2_S, 56.4, scale_at<0>},
    {WeightType::kIQ3_XXS, 143.0, scale_at<0>},
    {WeightType::kIQ3_S, 140.0, scale_at<0>},
    {WeightType::kIQ1_S, 7.2, scale_at<0>},
    {WeightType::kIQ1_M, 7.2, iq1_m},
    {WeightType::kIQ4_NL, 66.0, scale_at<0>},
    {WeightType::kIQ4_XS, 1220.0, scale_at<0>},
    {WeightType::kTQ1_0, 0.82, scale_at<52>},
    {WeightType::kTQ2_0, 0.71, tq2_0},
    {WeightType::kMXFP4, 5.85, mxfp4},
    {WeightType::kNVFP4, 5.85, nvfp4},
    {WeightType::kQ1_0, 1.0, scale_at<0>},
    {WeightType::kQ2_0, 0.71, q2_0},
};

const Recipe* recipe(WeightType type) {
  for (const Recipe& r : kRecipes) {
    if (r.type == type) return &r;
  }
  return nullptr;
}

// Uniform in +- sqrt(3) * deviation, from 23 random bits.
float uniform(uint32_t bits, float factor) {
  const uint32_t one_to_two = (bits >> 9) | 0x3f800000u;
  float f = 0;
  std::memcpy(&f, &one_to_two, sizeof(f));
  return (f - 1.5f) * factor;
}

void fill_f32(double deviation, Random* rng, std::span<std::byte> out) {
  const auto factor = static_cast<float>(deviation * 2 * std::sqrt(3.0));
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t v = rng->next();
    const float pair[2] = {uniform(static_cast<uint32_t>(v), factor),
                           uniform(static_cast<uint32_t>(v >> 32), factor)};
    std::memcpy(out.data() + i, pair, std::min<size_t>(8, out.size() - i));
  }
}

// Two-byte floats come from a table of 65,536 of them: narrowing each would be slower than the disk.
void fill_half(WeightType type, double deviation, Random* rng, std::span<std::byte> out) {
  const auto factor = static_cast<float>(deviation * 2 * std::sqrt(3.0));
  std::vector<uint16_t> table(65536);
  for (uint32_t i = 0; i < table.size(); ++i) {
    const float f = uniform((i << 16) | 0x8000u, factor);
    table[i] = type == WeightType::kF16 ? f32_to_f16(f) : f32_to_bf16(f);
  }
  for (size_t i = 0; i < out.size(); i += 8) {
    uint64_t v = rng->next();
    uint16_t four[4];
    for (uint16_t& h : four) {
      h = table[v & 0xffff];
      v >>= 16;
    }
    std::memcpy(out.data() + i, four, std::min<size_t>(8, out.size() - i));
  }
}

}  // namespace

bool can_fill(WeightType type) { return is_plain_float(type) || recipe(type) != nullptr; }

void fill_random(WeightType type, double deviation, uint64_t seed, std::span<std::byte> bytes) {
  Random rng(seed);
  if (type == WeightType::kF32) return fill_f32(deviation, &rng, bytes);
  if (is_plain_float(type)) return fill_half(type, deviation, &rng, bytes);
  const Recipe* r = recipe(type);
  random_bytes(&rng, bytes);
  const auto block = static_cast<size_t>(weight_type_info(type).block_bytes);
  const double d = deviation / r->unit;
  for (size_t i = 0; i + block <= bytes.size(); i += block) r->patch(bytes.data() + i, d);
}

}  // namespace argon
