// One metadata value of a GGUF file: a view into the file's bytes, which must outlive it. Only the parser
// makes values, after checking every length against the bytes that are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace argon {

// The numbers are those of the file format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

// "u32", "string", "array", ...
std::string_view gguf_type_name(GgufType type);
// Bytes of one value of a fixed-size type; 0 for strings and arrays.
size_t gguf_type_bytes(GgufType type);
bool gguf_type_is_integer(GgufType type);

class GgufValue {
 public:
  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::kArray; }
  // "u32", "array of string": for messages.
  std::string_view type_name() const { return gguf_type_name(type_); }

  // Scalars. nullopt when the value is of another kind or does not fit.
  std::optional<uint64_t> as_u64() const;  // any integer type, not negative
  std::optional<int64_t> as_i64() const;   // any integer type, up to 2^63 - 1
  std::optional<double> as_f64() const;    // f32, f64 and any integer type (integers above 2^53 round)
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;  // bytes as stored; UTF-8 is not checked here

  // Arrays (all of these are 0, empty or kU8 for scalars).
  GgufType element_type() const { return element_type_; }
  uint64_t size() const { return count_; }
  // Element i < size() as a value: a scalar, a string or, in a nested array, an array.
  GgufValue at(uint64_t i) const;
  // The elements of an array of strings; empty for other arrays.
  std::span<const std::string_view> strings() const { return strings_; }
  // The elements of an array of arrays; empty for other arrays.
  std::span<const GgufValue> arrays() const { return arrays_; }
  // Element i < size() of an array whose element type is exactly T's. Data in a file has no alignment.
  template <class T>
  T element(uint64_t i) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T v;
    std::memcpy(&v, data_ + i * sizeof(T), sizeof(T));
    return v;
  }
  // The value exactly as encoded in the file, without key and type: what GgufHeader::add_encoded takes.
  std::span<const std::byte> encoded() const { return encoded_; }

 private:
  friend class GgufParser;

  GgufType type_ = GgufType::kU8;
  GgufType element_type_ = GgufType::kU8;
  uint64_t count_ = 0;
  const std::byte* data_ =
      nullptr;             // scalar: its bytes; string: its characters; fixed-size array: its elements
  size_t text_bytes_ = 0;  // string: its length
  std::span<const std::byte> encoded_;
  std::vector<std::string_view> strings_;
  std::vector<GgufValue> arrays_;
};

}  // namespace argon
