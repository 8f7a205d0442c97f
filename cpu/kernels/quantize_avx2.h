// The AVX2 quantisation of rows (matmul_avx2.cpp), for kernels that quantise what they write.
#pragma once

#include "ops/matmul/matmul.h"

namespace argon::ops {

void quantize_avx2(const QuantizeArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
