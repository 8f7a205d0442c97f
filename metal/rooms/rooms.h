// The operations on a Metal device, one function for each room: they check nothing and put kernels on the
// device.
#pragma once

#include "metal/launch.h"
#include "ops/embed/embed.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/gdn/gdn.h"
#include "ops/kv_store/kv_store.h"
#include "ops/matmul/matmul.h"
#include "ops/moe_combine/moe_combine.h"
#include "ops/moe_route/moe_route.h"
#include "ops/ngram_embed/ngram_embed.h"
#include "ops/qsa_attention/qsa_attention.h"
#include "ops/qsa_select/qsa_select.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/swiglu/swiglu.h"

namespace argon::metal {

void run(Launcher&, const ops::QuantizeArgs&);
void run(Launcher&, const ops::MatmulArgs&);
void run(Launcher&, const ops::MatmulGroupedArgs&);
void run(Launcher&, const ops::EmbedArgs&);
void run(Launcher&, const ops::RmsNormArgs&);
void run(Launcher&, const ops::RopeArgs&);
void run(Launcher&, const ops::KvStoreArgs&);
void run(Launcher&, const ops::MoeCombineArgs&);
void run(Launcher&, const ops::SwigluArgs&);
void run(Launcher&, const ops::QsaAttentionArgs&);
void run(Launcher&, const ops::GrNormArgs&);
// As ops::Backend's: the norm's b is the combine's out, which is not written.
void run_combined_norm(Launcher&, const ops::MoeCombineArgs&, const ops::GrNormArgs&);
void run(Launcher&, const ops::GrApplyArgs&);
void run(Launcher&, const ops::GrGateArgs&);
void run(Launcher&, const ops::GrMixArgs&);
void run(Launcher&, const ops::GdnPreArgs&);
void run(Launcher&, const ops::GdnScanArgs&);
void run(Launcher&, const ops::GdnPostArgs&);
void run(Launcher&, const ops::QsaBlockKeysArgs&);
void run(Launcher&, const ops::QsaSelectArgs&);
void run(Launcher&, const ops::MoeRouteArgs&);
void run(Launcher&, const ops::MoeGroupArgs&);
void run(Launcher&, const ops::NgramHashArgs&);
void run(Launcher&, const ops::NgramGateArgs&);
void run(Launcher&, const ops::NgramConvArgs&);

}  // namespace argon::metal
