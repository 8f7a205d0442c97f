// What a dispatch is given (metal/device.h): arguments, function constants and the grid, with their limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace argon::metal {

inline constexpr size_t kMaxArguments = 31;
inline constexpr size_t kMaxValueBytes = 128;
inline constexpr uint32_t kMaxThreads = 1024;  // per threadgroup
inline constexpr uint32_t kMaxThreadgroupBytes = 32 * 1024;

struct Size3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Grid {
  Size3 threadgroups;
  Size3 threads;                            // per threadgroup
  std::vector<uint32_t> threadgroup_bytes;  // for [[threadgroup(i)]] arguments, by i
};

// One entry of the argument table, by position: argument i is [[buffer(i)]].
struct Argument {
  const void* pointer = nullptr;
  size_t bytes = 0;  // how much the kernel may touch from `pointer` on
  std::array<std::byte, kMaxValueBytes> inline_value{};
  bool is_value = false;

  static Argument none() { return {}; }  // for an argument that its function constant switches off
  static Argument buffer(const void* p, size_t n) {
    Argument a;
    a.pointer = p;
    a.bytes = n;
    return a;
  }
  template <class T>
  static Argument value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxValueBytes);
    Argument a;
    std::memcpy(a.inline_value.data(), &v, sizeof(T));
    a.bytes = sizeof(T);
    a.is_value = true;
    return a;
  }
};

// The value of a kernel's [[function_constant(index)]]. A pipeline gives all those that its file declares.
struct Constant {
  enum class Type : uint32_t { kBool, kInt, kUint, kFloat };
  uint32_t index;
  Type type;
  uint32_t bits;

  static Constant of(uint32_t i, bool v) { return {i, Type::kBool, v ? 1u : 0u}; }
  static Constant of(uint32_t i, int32_t v) { return {i, Type::kInt, static_cast<uint32_t>(v)}; }
  static Constant of(uint32_t i, uint32_t v) { return {i, Type::kUint, v}; }
};

}  // namespace argon::metal
