#include "metal/kernels/prompt_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::MoeCombineArgs& a) {
  // The slots lie somewhere among y's T*K rows.
  const PromptMetalArgs s{1, u32(a.H), u32(a.K), 0, 0.0f};
  const int64_t slots = a.T * a.K;
  l.dispatch("metal/kernels/prompt.metal", "moe_comb",
             {Constant::of(0, false), Constant::of(1, false), Constant::of(2, true)},
             {array(a.y, slots * a.H), array(a.slot, slots), array(a.w, slots), array(a.shared, a.T * a.H),
              array(a.sg, a.T), array(a.out, a.T * a.H), Argument::value(s)},
             grid(a.T, 256));
}

}  // namespace argon::metal
