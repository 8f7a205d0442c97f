// Routes matmul_avx512 and matmul_grouped_avx512.
#include "cpu/kernels/matmul_wide.h"

namespace argon::ops {

void matmul_avx512(const MatmulArgs& a, int64_t begin, int64_t end) { matmul_units(a, begin, end, any_rows); }

void matmul_grouped_avx512(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  grouped_units(a, begin, end, any_rows);
}

}  // namespace argon::ops
