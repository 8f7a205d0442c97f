#include "ops/sample/sample_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(SampleParity, Weights) { check_parity(ops::sample_weights_cases()); }

}  // namespace
}  // namespace argon::testing
