#include "ops/ngram_embed/ngram_embed_cases.h"
#include "tests/harness/parity.h"

namespace argon::testing {
namespace {

TEST(NgramEmbedParity, NgramHash) { check_parity(ops::ngram_hash_cases()); }
TEST(NgramEmbedParity, NgramGate) { check_parity(ops::ngram_gate_cases()); }
TEST(NgramEmbedParity, NgramConv) { check_parity(ops::ngram_conv_cases()); }

}  // namespace
}  // namespace argon::testing
