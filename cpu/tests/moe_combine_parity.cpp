#include "ops/moe_combine/moe_combine_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(MoeCombineParity, MoeCombine) { check_parity(ops::moe_combine_cases()); }

}  // namespace
}  // namespace argon::testing
