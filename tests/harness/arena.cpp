#include "tests/harness/arena.h"

#include <cmath>
#include <cstdio>

namespace argon::testing {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5;

uint32_t word_at(const uint8_t* p, size_t bytes) {
  uint32_t w = 0;
  std::memcpy(&w, p, bytes);
  return w;
}

}  // namespace

void* TestArena::add(size_t bytes, bool output) {
  auto a = std::make_unique<Array>();
  a->memory.assign(bytes + 3 * kGuard, kGuardByte);
  const size_t misalignment = reinterpret_cast<uintptr_t>(a->memory.data()) % kGuard;
  a->offset = 2 * kGuard - misalignment;
  a->bytes = bytes;
  a->output = output;
  uint8_t* data = a->memory.data() + a->offset;
  for (size_t i = 0; i < bytes; i += 4) std::memcpy(data + i, &poison_, std::min<size_t>(4, bytes - i));
  arrays_.push_back(std::move(a));
  return data;
}

float* TestArena::floats(size_t n, float scale) {
  float* p = static_cast<float*>(add(n * sizeof(float), false));
  std::normal_distribution<float> normal;
  constexpr float kAwkward[] = {0.0f, -0.0f, 1e-39f, -3e-41f, 1e-30f, -1e-20f, 30.0f, -90.0f};
  for (size_t i = 0; i < n; ++i) {
    const uint64_t pick = rng_() % 512;
    p[i] = pick < 8 ? kAwkward[pick] : normal(rng_) * scale;
  }
  return p;
}

float* TestArena::uniform(size_t n, float low, float high) {
  float* p = static_cast<float*>(add(n * sizeof(float), false));
  std::uniform_real_distribution<float> d(low, high);
  for (size_t i = 0; i < n; ++i) p[i] = d(rng_);
  return p;
}

uint8_t* TestArena::bytes(size_t n) {
  uint8_t* p = static_cast<uint8_t*>(add(n, false));
  for (size_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(rng_());
  return p;
}

int32_t* TestArena::ints(size_t n, int32_t low, int32_t high) {
  int32_t* p = static_cast<int32_t*>(add(n * sizeof(int32_t), false));
  std::uniform_int_distribution<int32_t> d(low, high);
  for (size_t i = 0; i < n; ++i) p[i] = d(rng_);
  return p;
}

std::string TestArena::difference(const TestArena& reference) const {
  char text[200];
  if (arrays_.size() != reference.arrays_.size()) return "the two arenas hold different arrays";
  for (size_t k = 0; k < arrays_.size(); ++k) {
    for (const Array* a : {arrays_[k].get(), reference.arrays_[k].get()}) {
      for (size_t i = 0; i < a->memory.size(); ++i) {
        if ((i < a->offset || i >= a->offset + a->bytes) && a->memory[i] != kGuardByte) {
          const auto at = static_cast<long long>(i) - static_cast<long long>(a->offset);
          std::snprintf(text, sizeof text, "array %zu: guard byte at offset %lld (of %zu bytes) was written",
                        k, at, a->bytes);
          return text;
        }
      }
    }
    const Array &mine = *arrays_[k], &theirs = *reference.arrays_[k];
    for (size_t i = 0; i < mine.bytes; i += 4) {
      const size_t n = std::min<size_t>(4, mine.bytes - i);
      const uint32_t m = word_at(mine.data() + i, n), r = word_at(theirs.data() + i, n);
      if (m == r) continue;
      // Bytes that neither wrote still hold each arena's own poison; an array may end, or be written, inside a word.
      bool untouched = mine.output;
      for (size_t b = 0; b < n; ++b) {
        const auto byte = [b](uint32_t word) { return static_cast<uint8_t>(word >> (8 * b)); };
        untouched = untouched &&
                    (byte(m) == byte(r) || (byte(m) == byte(poison_) && byte(r) == byte(reference.poison_)));
      }
      if (untouched) continue;
      std::snprintf(text, sizeof text, "array %zu (%s) word %zu of %zu: found %08x, reference %08x", k,
                    mine.output ? "output" : "input or state", i / 4, mine.bytes / 4, m, r);
      return text;
    }
  }
  return {};
}

bool TestArena::flip_a_bit(uint64_t where) {
  size_t total = 0;
  for (const auto& a : arrays_) total += a->bytes;
  if (total == 0) return false;
  where %= total * 8;
  for (const auto& a : arrays_) {
    if (where < a->bytes * 8) {
      a->memory[a->offset + where / 8] ^= static_cast<uint8_t>(1u << (where % 8));
      return true;
    }
    where -= a->bytes * 8;
  }
  return false;
}

}  // namespace argon::testing
