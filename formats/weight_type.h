// The number types that a GGUF tensor can have: their ids in the file, their names, and how many bytes a
// block takes. One table for the reader, the writer, the kernels' dispatch and the reports. Sizes: the
// container's published block layouts (docs/GGUF.md for the newer ones). What a block means is in this folder's
// header for that type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/weight_type_ids.h"

namespace argon {

struct WeightTypeInfo {
  WeightType type;
  std::string_view name;
  int block_length;  // values in a block; a row is a whole number of blocks
  int block_bytes;
};

inline constexpr std::array<WeightTypeInfo, 33> kWeightTypes = {{
    {WeightType::kF32, "F32", 1, 4},
    {WeightType::kF16, "F16", 1, 2},
    {WeightType::kQ4_0, "Q4_0", 32, 18},
    {WeightType::kQ4_1, "Q4_1", 32, 20},
    {WeightType::kQ5_0, "Q5_0", 32, 22},
    {WeightType::kQ5_1, "Q5_1", 32, 24},
    {WeightType::kQ8_0, "Q8_0", 32, 34},
    {WeightType::kQ2_K, "Q2_K", 256, 84},
    {WeightType::kQ3_K, "Q3_K", 256, 110},
    {WeightType::kQ4_K, "Q4_K", 256, 144},
    {WeightType::kQ5_K, "Q5_K", 256, 176},
    {WeightType::kQ6_K, "Q6_K", 256, 210},
    {WeightType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {WeightType::kIQ2_XS, "IQ2_XS", 256, 74},
    {WeightType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {WeightType::kIQ1_S, "IQ1_S", 256, 50},
    {WeightType::kIQ4_NL, "IQ4_NL", 32, 18},
    {WeightType::kIQ3_S, "IQ3_S", 256, 110},
    {WeightType::kIQ2_S, "IQ2_S", 256, 82},
    {WeightType::kIQ4_XS, "IQ4_XS", 256, 136},
    {WeightType::kI8, "I8", 1, 1},
    {WeightType::kI16, "I16", 1, 2},
    {WeightType::kI32, "I32", 1, 4},
    {WeightType::kI64, "I64", 1, 8},
    {WeightType::kF64, "F64", 1, 8},
    {WeightType::kIQ1_M, "IQ1_M", 256, 56},
    {WeightType::kBF16, "BF16", 1, 2},
    {WeightType::kTQ1_0, "TQ1_0", 256, 54},
    {WeightType::kTQ2_0, "TQ2_0", 256, 66},
    {WeightType::kMXFP4, "MXFP4", 32, 17},
    {WeightType::kNVFP4, "NVFP4", 64, 36},
    {WeightType::kQ1_0, "Q1_0", 128, 18},
    {WeightType::kQ2_0, "Q2_0", 64, 18},
}};

// The type with this id in the file; nullopt for a retired or unknown id.
constexpr std::optional<WeightTypeInfo> weight_type_by_id(uint32_t id) {
  for (const WeightTypeInfo& t : kWeightTypes) {
    if (static_cast<uint32_t>(t.type) == id) return t;
  }
  return std::nullopt;
}

// The type with exactly this (upper-case) name; nullopt when there is none.
constexpr std::optional<WeightTypeInfo> weight_type_by_name(std::string_view name) {
  for (const WeightTypeInfo& t : kWeightTypes) {
    if (t.name == name) return t;
  }
  return std::nullopt;
}

constexpr WeightTypeInfo weight_type_info(WeightType type) {
  return *weight_type_by_id(static_cast<uint32_t>(type));
}
constexpr std::string_view weight_type_name(WeightType type) { return weight_type_info(type).name; }

// F32, F16 or BF16: the types whose rows are plain floats and widen exactly to f32.
constexpr bool is_plain_float(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBF16;
}

// Bytes of a row of `columns` values. The caller has checked that columns is a multiple of the block length.
constexpr size_t weight_row_bytes(WeightType type, int64_t columns) {
  const WeightTypeInfo info = weight_type_info(type);
  return static_cast<size_t>(columns / info.block_length) * static_cast<size_t>(info.block_bytes);
}

// Why weight_type_by_id found nothing, as part of an error line: "type id 4 (Q4_2, retired)", "unknown type
// id 99".
std::string unknown_weight_type_text(uint32_t id);

}  // namespace argon
