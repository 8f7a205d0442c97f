#include "metal/kernels/swiglu_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::SwigluArgs& a) {
  const int64_t n = a.rows * a.F;
  l.dispatch("metal/kernels/swiglu.metal", "swiglu", {},
             {array(a.g, n), array(a.u, n), array(a.h, n), Argument::value(SwigluMetalArgs{u32(n)})},
             grid(blocks_for(n, 256), 256));
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

}  // namespace argon::metal
