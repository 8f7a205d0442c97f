#include "metal/kernels/rope_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::RopeArgs& a) {
  if (a.rows == 0 || a.heads == 0 || a.rot < 2) return;
  const RopeMetalArgs s{u32(a.stride), u32(a.inner), u32(a.rot), u32(a.position0), u32(a.position_step)};
  const int64_t reach = (a.rows - 1) * a.stride + (a.heads - 1) * a.inner + a.rot;
  const int64_t positions = a.position0 + (a.rows - 1) * a.position_step + 1;
  l.dispatch("metal/kernels/rope.metal", "rope", {},
             {array(a.x, reach), array(a.table, positions * a.rot), Argument::value(s)},
             {{blocks_for(a.rot / 2, 32), u32(a.heads), u32(a.rows)}, {32, 1, 1}, {}});
}

}  // namespace argon::metal
