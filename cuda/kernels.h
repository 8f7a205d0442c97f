// The operations on the device, one function for each room: they check nothing and put kernels into the
// queue.
#pragma once

#include "cuda/queue.h"
#include "cuda/weights.h"
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
#include "ops/sample/sample.h"
#include "ops/swiglu/swiglu.h"

namespace argon::cuda {

void run(Queue&, const ops::QuantizeArgs&);
void run(Queue&, const ops::MatmulArgs&, const WeightView&);
void run(Queue&, const ops::MatmulGroupedArgs&, const WeightView&);
void run(Queue&, const ops::EmbedArgs&, const WeightView&);
void run(Queue&, const ops::RmsNormArgs&);
void run(Queue&, const ops::RopeArgs&);
void run(Queue&, const ops::KvStoreArgs&);
void run(Queue&, const ops::MoeCombineArgs&);
void run(Queue&, const ops::SwigluArgs&);
void run(Queue&, const ops::QsaAttentionArgs&);
void run(Queue&, const ops::GrNormArgs&);
void run(Queue&, const ops::GrApplyArgs&);
void run(Queue&, const ops::GrGateArgs&);
void run(Queue&, const ops::GrMixArgs&);
void run(Queue&, const ops::GdnPreArgs&);
void run(Queue&, const ops::GdnScanArgs&);
void run(Queue&, const ops::GdnPostArgs&);
void run(Queue&, const ops::QsaBlockKeysArgs&);
void run(Queue&, const ops::QsaSelectArgs&);
void run(Queue&, const ops::MoeRouteArgs&);
void run(Queue&, const ops::MoeGroupArgs&);
void run(Queue&, const ops::NgramHashArgs&);
void run(Queue&, const ops::NgramGateArgs&);
void run(Queue&, const ops::NgramConvArgs&);
void run(Queue&, const ops::SampleArgs&);

// One token; false for sizes that they do not take.
bool gdn_one(Queue&, const ops::GdnPreArgs&);
bool gdn_one(Queue&, const ops::GdnScanArgs&);
bool gdn_one(Queue&, const ops::GdnPostArgs&);

bool select_one(Queue&, const ops::QsaSelectArgs&);
bool attention_step(Queue&, const ops::QsaAttentionArgs&);

// Neighbours in one kernel; false when their sizes are not those it takes.
bool products(Queue&, const ops::MatmulArgs* a, const WeightView* w, int count);
bool grouped_pair(Queue&, const ops::MatmulGroupedArgs (&a)[2], const WeightView (&w)[2]);
// Gate and up of many slots with the quantised activation; g, u and h are not written.
bool gated_experts(Queue&, const ops::MatmulGroupedArgs& gate, const WeightView& w_gate,
                   const ops::MatmulGroupedArgs& up, const WeightView& w_up, const ops::SwigluArgs&);
bool routing(Queue&, const ops::MoeRouteArgs&, const ops::MoeGroupArgs&);
// down of act's output for the slots, and the same for the shared expert.
bool gated_down(Queue&, const ops::SwigluArgs& act, const ops::MatmulGroupedArgs& down, const WeightView&,
                const ops::SwigluArgs& shared_act, const ops::MatmulArgs& shared_down,
                const WeightView& shared);
bool mixed(Queue&, const ops::GrGateArgs&, const ops::MatmulArgs& up, const WeightView&,
           const ops::GrMixArgs&);
bool delta(Queue&, const ops::GdnPreArgs&, const ops::GdnScanArgs&, const ops::GdnPostArgs&);
bool combined_norm(Queue&, const ops::MoeCombineArgs&, const ops::GrNormArgs&);

// Forms that run() takes for other sizes or not at all: what the parity programs compare with
// (cuda/tests/prompt_route.h). heads: value heads a warp scans together, 0 for a state kept in memory.
void scan_by(Queue&, const ops::GdnScanArgs&, int64_t heads);
// The selection of many tokens by launches of as many of them as `chunk_keys` scores in scratch memory allow.
void select_by(Queue&, const ops::QsaSelectArgs&, int64_t chunk_keys);
void run_general(Queue&, const ops::GdnPreArgs&);
void run_general(Queue&, const ops::GdnPostArgs&);
void run_general(Queue&, const ops::MoeCombineArgs&);
void run_general(Queue&, const ops::GrNormArgs&);
void run_general(Queue&, const ops::GrApplyArgs&);
void run_general(Queue&, const ops::GrMixArgs&);

}  // namespace argon::cuda
