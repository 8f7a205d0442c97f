#include "ops/gdn/gdn_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(GdnParity, GdnPre) { check_parity(ops::gdn_pre_cases()); }
TEST(GdnParity, GdnScan) { check_parity(ops::gdn_scan_cases()); }
TEST(GdnParity, GdnPost) { check_parity(ops::gdn_post_cases()); }

}  // namespace
}  // namespace argon::testing
