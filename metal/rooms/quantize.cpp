#include "metal/kernels/matmul_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::QuantizeArgs& a) {
  const int64_t blocks = a.T * (a.K / 32);
  if (blocks == 0) return;
  l.dispatch("metal/kernels/quantize.metal", "quantize", {},
             {array(a.x, blocks * 32), array(a.q.codes, blocks * 32), array(a.q.d, blocks),
              array(a.q.sums, blocks * 2), Argument::value(QuantizeMetalArgs{static_cast<uint64_t>(blocks)})},
             grid(blocks_for(blocks, 64), 64));
}

}  // namespace argon::metal
