#include "ops/moe_route/moe_route_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(MoeRouteParity, MoeRoute) { check_parity(ops::moe_route_cases()); }
TEST(MoeRouteParity, MoeGroup) { check_parity(ops::moe_group_cases()); }

}  // namespace
}  // namespace argon::testing
