#include <algorithm>

#include "formats/format.h"
#include "metal/kernels/matmul_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

// Dense and grouped products in one struct; grouped: expert_begin is given and T counts slots.
struct Product {
  ops::WeightMatrix w;
  int64_t matrices;
  size_t matrix_bytes;
  const float* x;
  ops::QuantizedRows q;
  float* y;
  int64_t T, ldy;
  const int32_t *expert_begin, *slot_row;
};

// From this many rows of x on, unpacking W once for 32 of them is worth the barriers.
constexpr int64_t kPromptRows = 8;

// The arguments that all kernels end with, and how much of an array of `n` elements per row of x may be read:
// which rows gathering slots name, only the device knows.
struct Common {
  const Product& p;
  const Launcher& l;
  Argument weights() const {
    return bytes(p.w.data, static_cast<size_t>(p.matrices - 1) * p.matrix_bytes +
                               static_cast<size_t>(p.w.rows) * p.w.row_bytes);
  }
  template <class T>
  Argument input(const T* data, int64_t n) const {
    return p.slot_row == nullptr ? array(data, p.T * n) : bytes(data, l.device().extent(data));
  }
  Argument output() const { return array(p.y, (p.T - 1) * p.ldy + p.w.rows); }
  Argument begins() const { return array(p.expert_begin, p.matrices + 1); }
  Argument rows() const { return array(p.slot_row, p.T); }
};

MatmulMetalArgs sizes(const Product& p, uint32_t lane_bits) {
  return {p.w.row_bytes, p.matrix_bytes, u32(p.w.rows),   u32(p.w.cols),
          u32(p.T),      u32(p.ldy),     u32(p.matrices), lane_bits};
}

// Grouped with few slots: each by itself; with many: expert by expert. `tile`: rows of x of a threadgroup.
MatmulMode mode_of(const Product& p) {
  if (p.expert_begin == nullptr) return kMatmulDense;
  return 2 * p.T < p.matrices ? kMatmulSlots : kMatmulExperts;
}
int64_t places(const Product& p, MatmulMode mode, int64_t tile) {
  return mode == kMatmulDense ? (p.T + tile - 1) / tile : mode == kMatmulSlots ? p.T : p.matrices;
}

void run_float(Launcher& l, const Product& p) {
  const MatmulMode mode = mode_of(p);
  const bool one = mode == kMatmulSlots || (mode == kMatmulDense && p.T == 1);
  const bool is_short = one && p.w.cols <= 512;  // the rows' begin and end would outweigh the sums
  const uint32_t rows = is_short ? 32 : one ? 8 : 4, cols = one ? 1 : 8, simdgroups = 2;
  const Common c{p, l};
  Grid g = grid(blocks_for(p.w.rows, rows * simdgroups), places(p, mode, cols), 32 * simdgroups);
  g.threadgroup_bytes = {simdgroups * rows * cols * 33 * u32(sizeof(float))};
  l.dispatch(
      "metal/kernels/matmul_float.metal",
      is_short ? "matmul_float_32x1"
      : one    ? "matmul_float_8x1"
               : "matmul_float_4x8",
      {Constant::of(0, static_cast<uint32_t>(p.w.type)), Constant::of(1, static_cast<uint32_t>(mode)),
       Constant::of(2, p.expert_begin != nullptr), Constant::of(3, p.slot_row != nullptr)},
      {c.weights(), c.input(p.x, p.w.cols), c.output(), c.begins(), c.rows(), Argument::value(sizes(p, 0))},
      g);
}

void run_quantized(Launcher& l, const Product& p) {
  const FormatTraits* f = find_format(p.w.type);
  if (f == nullptr || p.w.cols % 32 != 0) {
    return l.fail(unsupported("no Metal kernel multiplies with " + std::string(weight_type_name(p.w.type)) +
                              " rows of " + std::to_string(p.w.cols) + " values: use --backend cpu"));
  }
  const MatmulMode mode = mode_of(p);
  const int64_t n = p.w.cols / 32;
  const Common c{p, l};
  const auto constant = [](uint32_t i, uint32_t v) { return Constant::of(i, v); };
  const Argument args[] = {c.weights(),       c.input(p.q.codes, n * 32),
                           c.input(p.q.d, n), c.input(p.q.sums, n * 2),
                           c.output(),        c.begins(),
                           c.rows(),          Argument::none()};
  std::vector<Argument> arguments(std::begin(args), std::end(args));
  std::vector<Constant> constants = {
      constant(0, static_cast<uint32_t>(p.w.type)), constant(1, static_cast<uint32_t>(mode)),
      Constant::of(2, p.expert_begin != nullptr), Constant::of(3, p.slot_row != nullptr)};
  if (mode == kMatmulExperts || (mode == kMatmulDense && p.T >= kPromptRows)) {
    arguments.back() = Argument::value(sizes(p, 0));
    return l.dispatch("metal/kernels/matmul_prompt.metal", "matmul_prompt", constants, arguments,
                      grid(blocks_for(p.w.rows, 32), places(p, mode, 32), 64));
  }
  // Short rows leave lanes free: they take other rows of W, and a simdgroup more rows.
  uint32_t lane_bits = 2;
  while (lane_bits < 5 && (int64_t{1} << lane_bits) < n) ++lane_bits;
  const uint32_t cols = mode == kMatmulSlots ? 1 : u32(std::min<int64_t>(p.T, 4)), simdgroups = 2;
  const uint32_t parts = u32(f->steps) * (f->has_min ? 2 : 1);
  uint32_t rows = n <= 8 ? 32 : n <= 16 ? 16 : n <= 32 ? 8 : 4;
  while (rows * cols * parts > 32) rows /= 2;  // 8 KiB of threadgroup memory for each simdgroup
  constants.push_back(constant(4, rows));
  constants.push_back(constant(5, cols));
  arguments.back() = Argument::value(sizes(p, lane_bits));
  Grid g = grid(blocks_for(p.w.rows, rows * simdgroups), places(p, mode, cols), 32 * simdgroups);
  g.threadgroup_bytes = {simdgroups * rows * cols * parts * (8u << lane_bits)};
  l.dispatch("metal/kernels/matmul_step.metal", "matmul_step", constants, arguments, g);
}

void run_product(Launcher& l, const Product& p) {
  if (p.T == 0 || p.w.rows == 0) return;
  is_plain_float(p.w.type) ? run_float(l, p) : run_quantized(l, p);
}

}  // namespace

void run(Launcher& l, const ops::MatmulArgs& a) {
  run_product(l, {a.w, 1, 0, a.x, a.q, a.y, a.T, a.ldy, nullptr, nullptr});
}

void run(Launcher& l, const ops::MatmulGroupedArgs& a) {
  run_product(l, {a.w.first, a.w.experts, a.w.expert_bytes, a.x, a.q, a.y, a.S, a.w.first.rows,
                  a.expert_begin, a.slot_row});
}

}  // namespace argon::metal
