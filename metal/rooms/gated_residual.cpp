#include <algorithm>

#include "metal/kernels/gated_residual_args.h"
#include "metal/kernels/prompt_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

const char* const kFile = "metal/kernels/gated_residual.metal";
constexpr uint32_t kThreads = 128;

}  // namespace

void run(Launcher& l, const ops::GrNormArgs& a) {
  const bool apply = a.b != nullptr;
  const int64_t wide = a.T * a.C * a.H;
  const PromptMetalArgs s{u32(a.C), u32(a.H), 0, 0, a.eps};
  l.dispatch(
      "metal/kernels/prompt.metal", "gr_norm_h4",
      {Constant::of(0, apply), Constant::of(1, false), Constant::of(2, true)},
      {array(a.x, wide), array(a.w, a.C * a.H), array(a.b, a.T * a.H),
       array(apply ? a.inj : nullptr, a.T * a.C), Argument::none(), array(a.n, wide), Argument::value(s)},
      grid(a.T, 256));
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

// The combined rows are made where the norm adds them and never go to memory.
void run_combined_norm(Launcher& l, const ops::MoeCombineArgs& c, const ops::GrNormArgs& a) {
  const int64_t wide = a.T * a.C * a.H, slots = c.T * c.K;
  const PromptMetalArgs s{u32(a.C), u32(a.H), u32(c.K), 0, a.eps};
  l.dispatch("metal/kernels/prompt.metal", "gr_norm_h_moec",
             {Constant::of(0, true), Constant::of(1, false), Constant::of(2, true)},
             {array(a.x, wide), array(a.w, a.C * a.H), array(a.inj, a.T * a.C), array(c.y, slots * c.H),
              array(c.slot, slots), array(c.w, slots), array(c.shared, c.T * c.H), array(c.sg, c.T),
              Argument::none(), array(a.n, wide), Argument::value(s)},
             grid(a.T, 256));
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

void run(Launcher& l, const ops::GrApplyArgs& a) {
  const GatedResidualMetalArgs s{u32(a.C), u32(a.H), 0, 0};
  l.dispatch(
      kFile, "gr_apply", {Constant::of(0, false)},
      {array(a.x, a.T * a.C * a.H), array(a.b, a.T * a.H), array(a.inj, a.T * a.C), Argument::value(s)},
      grid(blocks_for(a.H, kThreads), a.T * a.C, kThreads));
}

void run(Launcher& l, const ops::GrGateArgs& a) {
  const bool inject = a.inj != nullptr;
  const GatedResidualMetalArgs s{u32(a.C), 0, u32(a.T * a.R), inject ? u32(a.T * a.C) : 0};
  l.dispatch(kFile, "gr_gate", {Constant::of(0, inject)},
             {array(a.lo, a.T * a.R), array(a.inj, a.T * a.C), Argument::value(s)},
             grid(blocks_for(std::max(s.n, s.streams), kThreads), kThreads));
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

void run(Launcher& l, const ops::GrMixArgs& a) {
  const GatedResidualMetalArgs s{u32(a.C), u32(a.H), 0, 0};
  const int64_t wide = a.T * a.C * a.H;
  l.dispatch(kFile, "gr_mix", {Constant::of(0, false)},
             {array(a.up, wide), array(a.n, wide), array(a.h, a.T * a.H), Argument::value(s)},
             grid(blocks_for(a.H, kThreads), a.T, kThreads));
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

}  // namespace argon::metal
