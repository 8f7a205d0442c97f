// Parity of the small operations on Metal kernels with the scalar references, on the cases of every backend.
#include "metal/tests/ops_parity.h"

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

TEST(MetalParity, Embed) { check_metal_parity(ops::embed_cases(), 4); }
TEST(MetalParity, GrNorm) { check_metal_parity(ops::gr_norm_cases(), 3); }
TEST(MetalParity, GrApply) { check_metal_parity(ops::gr_apply_cases(), 2); }
TEST(MetalParity, GrGate) { check_metal_parity(ops::gr_gate_cases(), 1); }
TEST(MetalParity, GrMix) { check_metal_parity(ops::gr_mix_cases(), 2); }
TEST(MetalParity, GdnPre) { check_metal_parity(ops::gdn_pre_cases(), 3); }
TEST(MetalParity, GdnScan) { check_metal_parity(ops::gdn_scan_cases(), 3); }
TEST(MetalParity, GdnPost) { check_metal_parity(ops::gdn_post_cases(), 3); }
TEST(MetalParity, KvStore) { check_metal_parity(ops::kv_store_cases(), 1); }
TEST(MetalParity, MoeCombine) { check_metal_parity(ops::moe_combine_cases(), 5); }
TEST(MetalParity, MoeRoute) { check_metal_parity(ops::moe_route_cases(), 1); }
TEST(MetalParity, MoeGroup) { check_metal_parity(ops::moe_group_cases(), 5); }
TEST(MetalParity, NgramHash) { check_metal_parity(ops::ngram_hash_cases(), 1); }
TEST(MetalParity, NgramGate) { check_metal_parity(ops::ngram_gate_cases(), 1); }
TEST(MetalParity, NgramConv) { check_metal_parity(ops::ngram_conv_cases(), 4); }
TEST(MetalParity, RmsNorm) { check_metal_parity(ops::rms_norm_cases(), 1); }
TEST(MetalParity, Rope) { check_metal_parity(ops::rope_cases(), 1); }
TEST(MetalParity, Swiglu) { check_metal_parity(ops::swiglu_cases(), 1); }

}  // namespace
}  // namespace argon::testing
