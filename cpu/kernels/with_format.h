// From a weight type to its format struct, for kernels that are templates over formats (formats/block.h).
#pragma once

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
#include "formats/weight_type.h"

namespace argon::ops {
inline namespace ARGON_ISA_NS {

// Calls fn with a value of the type's format struct; false when it is no integer-code type.
template <class Fn>
inline bool with_format(WeightType type, Fn fn) {
  switch (type) {
#define ARGON_FORMAT(Format)  \
  case WeightType::k##Format: \
    fn(Format());             \
    return true;
    ARGON_FORMAT(Q8_0)
    ARGON_FORMAT(Q4_0)
    ARGON_FORMAT(Q4_1)
    ARGON_FORMAT(Q5_0)
    ARGON_FORMAT(Q5_1)
    ARGON_FORMAT(Q2_K)
    ARGON_FORMAT(Q3_K)
    ARGON_FORMAT(Q4_K)
    ARGON_FORMAT(Q5_K)
    ARGON_FORMAT(Q6_K)
    ARGON_FORMAT(IQ1_S)
    ARGON_FORMAT(IQ1_M)
    ARGON_FORMAT(IQ2_XXS)
    ARGON_FORMAT(IQ2_XS)
    ARGON_FORMAT(IQ2_S)
    ARGON_FORMAT(IQ3_XXS)
    ARGON_FORMAT(IQ3_S)
    ARGON_FORMAT(IQ4_NL)
    ARGON_FORMAT(IQ4_XS)
    ARGON_FORMAT(MXFP4)
    ARGON_FORMAT(NVFP4)
    ARGON_FORMAT(Q2_0)
#undef ARGON_FORMAT
    default:
      return false;
  }
}

}  // namespace ARGON_ISA_NS
}  // namespace argon::ops
