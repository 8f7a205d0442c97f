// The arguments of every operation: each room's contract, and what is made of several of them.
#pragma once

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

namespace argon::ops {

// The experts of a layer with the router before them; gate, up and act of one input, down of act's output.
struct ExpertBlock {
  MatmulArgs router, shared_router;
  MoeRouteArgs route;
  MoeGroupArgs group;
  MatmulGroupedArgs gate, up;
  SwigluArgs act;
  MatmulGroupedArgs down;
  MatmulArgs shared_gate, shared_up;
  SwigluArgs shared_act;
  MatmulArgs shared_down;
};

}  // namespace argon::ops
