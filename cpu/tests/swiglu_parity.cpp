#include "ops/swiglu/swiglu_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(SwigluParity, Swiglu) { check_parity(ops::swiglu_cases()); }

}  // namespace
}  // namespace argon::testing
