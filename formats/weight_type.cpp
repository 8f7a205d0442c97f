#include "formats/weight_type.h"

namespace argon {
namespace {

struct RetiredType {
  uint32_t id;
  std::string_view what;
};

// Ids that files once used, or that name formats of other programs' working memory.
constexpr RetiredType kRetired[] = {
    {4, "Q4_2, retired"},
    {5, "Q4_3, retired"},
    {9, "Q8_1, never stored in files"},
    {15, "Q8_K, never stored in files"},
    {31, "Q4_0_4_4, retired"},
    {32, "Q4_0_4_8, retired"},
    {33, "Q4_0_8_8, retired"},
    {36, "IQ4_NL_4_4, retired"},
    {37, "IQ4_NL_4_8, retired"},
    {38, "IQ4_NL_8_8, retired"},
};

constexpr bool ids_are_unique() {
  for (size_t i = 0; i < kWeightTypes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (kWeightTypes[i].type == kWeightTypes[j].type || kWeightTypes[i].name == kWeightTypes[j].name)
        return false;
    }
    for (const RetiredType& r : kRetired) {
      if (static_cast<uint32_t>(kWeightTypes[i].type) == r.id) return false;
    }
  }
  return true;
}
static_assert(ids_are_unique());

}  // namespace

std::string unknown_weight_type_text(uint32_t id) {
  for (const RetiredType& r : kRetired) {
    if (r.id == id) return "type id " + std::to_string(id) + " (" + std::string(r.what) + ")";
  }
  return "unknown type id " + std::to_string(id);
}

}  // namespace argon
