#include "formats/format.h"

#include "formats/floats.h"
#include "formats/iq1_m.h"
#include "formats/iq1_s.h"
#include "formats/iq2_s.h"
#include "formats/iq2_xs.h"
#include "formats/iq2_xxs.h"
#include "formats/iq3_s.h"
#include "formats/iq3_xxs.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/q2_0.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q4_k.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#include "formats/q8_0.h"

namespace argon {
namespace {

template <class Format>
constexpr FormatTraits codes(WeightType type) {
  return {type,
          Format::kBlockValues,
          Format::kBlockBytes,
          Format::kSteps,
          Format::kHasMin,
          &Format::unpack32,
          &dequant_row_as<Format>};
}

template <class Float>
constexpr FormatTraits floats(WeightType type) {
  return {type, 1, Float::kValueBytes, 0, false, nullptr, &widen_row_as<Float>};
}

constexpr FormatTraits kFormats[] = {
    floats<F32>(WeightType::kF32),        floats<F16>(WeightType::kF16),
    floats<BF16>(WeightType::kBF16),      codes<Q8_0>(WeightType::kQ8_0),
    codes<Q4_0>(WeightType::kQ4_0),       codes<Q4_1>(WeightType::kQ4_1),
    codes<Q5_0>(WeightType::kQ5_0),       codes<Q5_1>(WeightType::kQ5_1),
    codes<Q2_K>(WeightType::kQ2_K),       codes<Q3_K>(WeightType::kQ3_K),
    codes<Q4_K>(WeightType::kQ4_K),       codes<Q5_K>(WeightType::kQ5_K),
    codes<Q6_K>(WeightType::kQ6_K),       codes<IQ1_S>(WeightType::kIQ1_S),
    codes<IQ1_M>(WeightType::kIQ1_M),     codes<IQ2_XXS>(WeightType::kIQ2_XXS),
    codes<IQ2_XS>(WeightType::kIQ2_XS),   codes<IQ2_S>(WeightType::kIQ2_S),
    codes<IQ3_XXS>(WeightType::kIQ3_XXS), codes<IQ3_S>(WeightType::kIQ3_S),
    codes<IQ4_NL>(WeightType::kIQ4_NL),   codes<IQ4_XS>(WeightType::kIQ4_XS),
    codes<MXFP4>(WeightType::kMXFP4),     codes<NVFP4>(WeightType::kNVFP4),
    codes<Q2_0>(WeightType::kQ2_0),
};

constexpr bool sizes_agree() {
  for (const FormatTraits& f : kFormats) {
    const WeightTypeInfo info = weight_type_info(f.type);
    if (info.block_length != f.block_values || info.block_bytes != f.block_bytes) return false;
  }
  return true;
}
static_assert(sizes_agree(), "formats/<type>.h and formats/weight_type.h disagree about a block's size");

}  // namespace

const FormatTraits* find_format(WeightType type) {
  for (const FormatTraits& f : kFormats) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

}  // namespace argon
