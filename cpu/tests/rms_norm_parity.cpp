#include "ops/rms_norm/rms_norm_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(RmsNormParity, RmsNorm) { check_parity(ops::rms_norm_cases()); }

}  // namespace
}  // namespace argon::testing
