// The buffers of a parity case. A case builds its arguments in an arena; built twice from one seed, reference
// and kernel get equal inputs in separate memory. Outputs are poisoned (differently in the two arenas, so
// that a word left unwritten by the kernel alone is a difference) and every array has guard words at both
// ends.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace argon::testing {

class TestArena {
 public:
  TestArena(uint64_t seed, uint32_t poison) : rng_(seed), poison_(poison) {}

  // Standard normal values times `scale`; about one in 64 is replaced by an awkward one: zeros of both signs,
  // subnormals, and magnitudes that make subnormal or large products.
  float* floats(size_t n, float scale = 1.0f);
  // Uniform in [low, high).
  float* uniform(size_t n, float low, float high);
  // Uniform bytes; integers in [low, high].
  uint8_t* bytes(size_t n);
  int32_t* ints(size_t n, int32_t low, int32_t high);
  template <class T>
  T* output(size_t n) {
    return static_cast<T*>(add(n * sizeof(T), true));
  }
  template <class T>
  T* copy(const std::vector<T>& v) {
    T* p = static_cast<T*>(add(v.size() * sizeof(T), false));
    std::memcpy(p, v.data(), v.size() * sizeof(T));
    return p;
  }
  std::mt19937_64& rng() { return rng_; }

  // Empty when guards are whole and all arrays equal those of `reference`, word by word; else what differs
  // first: array, index and both words in hex.
  std::string difference(const TestArena& reference) const;
  // Flips one bit of one word that was compared, to prove that difference() sees it. False when there is no
  // output.
  bool flip_a_bit(uint64_t where);

  // Every array with its guards, for a copy in another memory: memory[offset] is where the array begins.
  struct Memory {
    uint8_t* memory;
    size_t size, offset;
  };
  std::vector<Memory> memories() {
    std::vector<Memory> all;
    for (const auto& a : arrays_) all.push_back({a->memory.data(), a->memory.size(), a->offset});
    return all;
  }

 private:
  struct Array {
    std::vector<uint8_t> memory;
    size_t offset, bytes;  // of the array inside memory
    bool output;
    const uint8_t* data() const { return memory.data() + offset; }
  };
  void* add(size_t bytes, bool output);
  std::mt19937_64 rng_;
  uint32_t poison_;
  std::vector<std::unique_ptr<Array>> arrays_;
};

}  // namespace argon::testing
