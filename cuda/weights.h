// How a weight matrix lies in device memory: as in the file, or, for types whose blocks are no multiple of 4
// bytes, split into a plane of codes and a plane of scales (the same bytes in another order), so that kernels
// load whole words. The backend splits a placed matrix when it first multiplies with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/weight_type.h"
#include "ops/matmul/matmul.h"

namespace argon::cuda {

class Queue;

// Matrix e of `matrices` begins at data + e*matrix_bytes. Split: rows of codes (code_bytes each), then, from
// scales on (bytes after the matrix begins), rows of n 2-byte scales.
struct WeightView {
  const uint8_t* data = nullptr;
  WeightType type = WeightType::kF32;
  bool split = false;
  int32_t code_bytes = 0;  // of one block of 32, when split
  int64_t rows = 0, cols = 0;
  int64_t row_bytes = 0;     // as in the file
  int64_t scales = 0;        // when split
  int64_t matrix_bytes = 0;  // from one expert to the next
  bool constant = false;     // placed memory: no kernel in flight writes it
};

inline WeightView file_view(const ops::WeightMatrix& w) {
  WeightView v;
  v.data = static_cast<const uint8_t*>(w.data);
  v.type = w.type;
  v.rows = w.rows;
  v.cols = w.cols;
  v.row_bytes = static_cast<int64_t>(w.row_bytes);
  return v;
}

// Bytes of codes in a block of 32 of the types that are split; 0 for the others.
constexpr int split_code_bytes(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0:
      return 32;
    case WeightType::kQ4_0:
    case WeightType::kIQ4_NL:
      return 16;
    default:
      return 0;
  }
}

// Splits blocks first .. first+blocks-1, counted through all matrices, into the region at view.data; `copy` holds
// these blocks as in the file.
void split_weights(Queue& queue, const WeightView& view, int64_t first, int64_t blocks, const uint8_t* copy);

}  // namespace argon::cuda
