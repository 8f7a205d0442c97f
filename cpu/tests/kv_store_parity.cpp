#include "ops/kv_store/kv_store_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(KvStoreParity, KvStore) { check_parity(ops::kv_store_cases()); }

}  // namespace
}  // namespace argon::testing
