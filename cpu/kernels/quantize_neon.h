// The NEON quantisation of rows (matmul_neon.cpp), for kernels that quantise what they write.
#pragma once

#include "ops/matmul/matmul.h"

namespace argon::ops {

void quantize_neon(const QuantizeArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
