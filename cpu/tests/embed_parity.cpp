#include "ops/embed/embed_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(EmbedParity, Embed) { check_parity(ops::embed_cases()); }

}  // namespace
}  // namespace argon::testing
