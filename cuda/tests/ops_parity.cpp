// Parity of the device's small operations with the scalar references, on the cases of every backend.
#include "cuda/tests/parity.h"
#include "ops/embed/embed_cases.h"
#include "ops/gated_residual/gated_residual_cases.h"
#include "ops/gdn/gdn_cases.h"
#include "ops/kv_store/kv_store_cases.h"
#include "ops/moe_combine/moe_combine_cases.h"
#include "ops/moe_route/moe_route_cases.h"
#include "ops/ngram_embed/ngram_embed_cases.h"
#include "ops/rms_norm/rms_norm_cases.h"
#include "ops/rope/rope_cases.h"
#include "ops/swiglu/swiglu_cases.h"

namespace argon::testing {
namespace {

TEST(CudaParity, Embed) { check_cuda_parity(ops::embed_cases()); }
TEST(CudaParity, GrNorm) { check_cuda_parity(ops::gr_norm_cases()); }
TEST(CudaParity, GrApply) { check_cuda_parity(ops::gr_apply_cases()); }
TEST(CudaParity, GrGate) { check_cuda_parity(ops::gr_gate_cases()); }
TEST(CudaParity, GrMix) { check_cuda_parity(ops::gr_mix_cases()); }
TEST(CudaParity, GdnPre) { check_cuda_parity(ops::gdn_pre_cases()); }
TEST(CudaParity, GdnScan) { check_cuda_parity(ops::gdn_scan_cases()); }
TEST(CudaParity, GdnPost) { check_cuda_parity(ops::gdn_post_cases()); }
TEST(CudaParity, KvStore) { check_cuda_parity(ops::kv_store_cases()); }
TEST(CudaParity, MoeCombine) { check_cuda_parity(ops::moe_combine_cases()); }
TEST(CudaParity, MoeRoute) { check_cuda_parity(ops::moe_route_cases()); }
TEST(CudaParity, MoeGroup) { check_cuda_parity(ops::moe_group_cases()); }
TEST(CudaParity, NgramHash) { check_cuda_parity(ops::ngram_hash_cases()); }
TEST(CudaParity, NgramGate) { check_cuda_parity(ops::ngram_gate_cases()); }
TEST(CudaParity, NgramConv) { check_cuda_parity(ops::ngram_conv_cases()); }
TEST(CudaParity, RmsNorm) { check_cuda_parity(ops::rms_norm_cases()); }
TEST(CudaParity, Rope) { check_cuda_parity(ops::rope_cases()); }
TEST(CudaParity, Swiglu) { check_cuda_parity(ops::swiglu_cases()); }

}  // namespace
}  // namespace argon::testing
