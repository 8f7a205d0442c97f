#include "cpu/kernels/ceilings.h"
#include "cpu/kernels/tile_shapes.h"

namespace argon {

uint64_t multiply_int8_amx(int64_t turns) {
  static_assert(kInt8PerTurnAmx == 4 * 16 * 16 * 64);
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) shapes.bytes[i] = 64, shapes.rows[i] = 16;
  alignas(64) int8_t codes[16 * 64];
  for (int i = 0; i < 16 * 64; ++i) codes[i] = static_cast<int8_t>(i);
  alignas(64) int32_t sums[16 * 16];
  load_shapes(shapes);  // and no store to codes sinks below
  _tile_loadd(4, codes, 64);
  _tile_loadd(5, codes, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t t = 0; t < turns; ++t) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  _tile_release();
  asm volatile("" ::: "memory");
  return static_cast<uint64_t>(sums[0]);
}

}  // namespace argon
