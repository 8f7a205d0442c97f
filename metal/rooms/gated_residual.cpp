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
}

void run(Launcher& l, const ops::GrMixArgs& a) {
  const GatedResidualMetalArgs s{u32(a.C), u32(a.H), 0, 0};
  const int64_t wide = a.T * a.C * a.H;
  l.dispatch(kFile, "gr_mix", {Constant::of(0, false)},
             {array(a.up, wide), array(a.n, wide), array(a.h, a.T * a.H), Argument::value(s)},
             grid(blocks_for(a.H, kThreads), a.T, kThreads));
}

}  // namespace argon::metal
