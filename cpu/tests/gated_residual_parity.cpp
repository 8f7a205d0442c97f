#include "ops/gated_residual/gated_residual_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(GatedResidualParity, GrNorm) { check_parity(ops::gr_norm_cases()); }
TEST(GatedResidualParity, GrApply) { check_parity(ops::gr_apply_cases()); }
TEST(GatedResidualParity, GrGate) { check_parity(ops::gr_gate_cases()); }
TEST(GatedResidualParity, GrMix) { check_parity(ops::gr_mix_cases()); }

}  // namespace
}  // namespace argon::testing
