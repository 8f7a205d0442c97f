#include "ops/qsa_attention/qsa_attention_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(QsaAttentionParity, QsaAttention) { check_parity(ops::qsa_attention_cases()); }

}  // namespace
}  // namespace argon::testing
