// Parity of the indexer and attention on the device.
#include "cuda/tests/parity.h"
#include "ops/qsa_attention/qsa_attention_cases.h"
#include "ops/qsa_select/qsa_select_cases.h"

namespace argon::testing {
namespace {

TEST(CudaAttentionParity, BlockKeys) { check_cuda_parity(ops::qsa_block_keys_cases()); }
TEST(CudaAttentionParity, Select) { check_cuda_parity(ops::qsa_select_cases()); }
TEST(CudaAttentionParity, Attention) { check_cuda_parity(ops::qsa_attention_cases()); }

}  // namespace
}  // namespace argon::testing
