#include "ops/rope/rope_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(RopeParity, Rope) { check_parity(ops::rope_cases()); }

}  // namespace
}  // namespace argon::testing
