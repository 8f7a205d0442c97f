// The scalar references once more, the same source compiled with the processor's fma instruction: same bits
// (fma32 is correctly rounded either way), several times the speed of the portable form at T = 2048.
#pragma once

#include "ops/gated_residual/gated_residual.h"
#include "ops/gdn/gdn.h"
#include "ops/moe_combine/moe_combine.h"

namespace argon::ops {

void gdn_pre_ref_fma(const GdnPreArgs&, int64_t begin, int64_t end);
void gdn_scan_ref_fma(const GdnScanArgs&, int64_t begin, int64_t end);
void gdn_post_ref_fma(const GdnPostArgs&, int64_t begin, int64_t end);

}  // namespace argon::ops
