#include "ops/qsa_select/qsa_select_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(QsaSelectParity, QsaBlockKeys) { check_parity(ops::qsa_block_keys_cases()); }
TEST(QsaSelectParity, QsaSelect) { check_parity(ops::qsa_select_cases()); }

}  // namespace
}  // namespace argon::testing
