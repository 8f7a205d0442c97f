// The version of the numeric contract (NUMERICS.md). It changes with every change of an order of summation or a rounding,
// in the same commit as the references and the goldens; saved states and receipts carry it.
#pragma once

#include <cstdint>

namespace argon {
inline constexpr uint32_t kContractVersion = 1;
}  // namespace argon
