#include "ops/matmul/matmul_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(MatmulParity, Quantize) { check_parity(ops::quantize_cases()); }
TEST(MatmulParity, Matmul) { check_parity(ops::matmul_cases()); }
TEST(MatmulParity, MatmulGrouped) { check_parity(ops::matmul_grouped_cases()); }

}  // namespace
}  // namespace argon::testing
