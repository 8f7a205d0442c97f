#include "gguf/value.h"

#include <limits>

namespace argon {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t bytes;
  bool integer;
};
constexpr TypeInfo kTypes[kGgufTypeCount] = {
    {"u8", 1, true},  {"i8", 1, true},   {"u16", 2, true},   {"i16", 2, true},     {"u32", 4, true},
    {"i32", 4, true}, {"f32", 4, false}, {"bool", 1, false}, {"string", 0, false}, {"array", 0, false},
    {"u64", 8, true}, {"i64", 8, true},  {"f64", 8, false},
};

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }
size_t gguf_type_bytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].bytes; }
bool gguf_type_is_integer(GgufType type) { return kTypes[static_cast<uint32_t>(type)].integer; }

std::optional<int64_t> GgufValue::as_i64() const {
  switch (type_) {
    case GgufType::kU8:
      return load<uint8_t>(data_);
    case GgufType::kI8:
      return load<int8_t>(data_);
    case GgufType::kU16:
      return load<uint16_t>(data_);
    case GgufType::kI16:
      return load<int16_t>(data_);
    case GgufType::kU32:
      return load<uint32_t>(data_);
    case GgufType::kI32:
      return load<int32_t>(data_);
    case GgufType::kI64:
      return load<int64_t>(data_);
    case GgufType::kU64: {
      const auto v = load<uint64_t>(data_);
      if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> GgufValue::as_u64() const {
  if (type_ == GgufType::kU64) return load<uint64_t>(data_);
  const std::optional<int64_t> v = as_i64();
  if (!v || *v < 0) return std::nullopt;
  return static_cast<uint64_t>(*v);
}

std::optional<double> GgufValue::as_f64() const {
  if (type_ == GgufType::kF32) return static_cast<double>(load<float>(data_));
  if (type_ == GgufType::kF64) return load<double>(data_);
  if (type_ == GgufType::kU64) return static_cast<double>(load<uint64_t>(data_));
  if (const std::optional<int64_t> v = as_i64()) return static_cast<double>(*v);
  return std::nullopt;
}

std::optional<bool> GgufValue::as_bool() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return load<uint8_t>(data_) != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type_ != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(data_), text_bytes_);
}

GgufValue GgufValue::at(uint64_t i) const {
  if (element_type_ == GgufType::kArray) return arrays_[i];
  GgufValue v;
  v.type_ = element_type_;
  if (element_type_ == GgufType::kString) {
    const std::string_view s = strings_[i];
    v.data_ = reinterpret_cast<const std::byte*>(s.data());
    v.text_bytes_ = s.size();
    v.encoded_ = {v.data_ - sizeof(uint64_t), s.size() + sizeof(uint64_t)};
  } else {
    const size_t bytes = gguf_type_bytes(element_type_);
    v.data_ = data_ + i * bytes;
    v.encoded_ = {v.data_, bytes};
  }
  return v;
}

}  // namespace argon
