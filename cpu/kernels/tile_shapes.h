// The configuration of the tile registers (Intel's manual, LDTILECFG).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/isa_namespace.h"

namespace argon {
inline namespace ARGON_ISA_NS {

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row of each register
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

inline void load_shapes(const TileShapes& shapes) {
  asm volatile("" ::: "memory");  // GCC lets stores to shapes sink below the instruction otherwise
  _tile_loadconfig(&shapes);
}

}  // namespace ARGON_ISA_NS
}  // namespace argon
