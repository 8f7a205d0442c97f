#include "metal/kernels/rms_norm_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::RmsNormArgs& a) {
  if (a.rows == 0) return;
  // How far the rows reach: of the last head of the last full group, and of what is left.
  const auto reach = [&](int64_t stride, int64_t inner) {
    const int64_t groups = (a.rows - 1) / a.group, heads = a.rows > a.group ? a.group : a.rows;
    return groups * stride + (heads - 1) * inner + a.n;
  };
  const RmsNormMetalArgs s{u32(a.x_stride), u32(a.x_inner), u32(a.y_stride), u32(a.y_inner),
                           u32(a.rows),     u32(a.group),   u32(a.n),        a.eps};
  const bool small = a.n < 512;
  l.dispatch("metal/kernels/rms_norm.metal", small ? "rms_norm_small" : "rms_norm", {},
             {array(a.x, reach(a.x_stride, a.x_inner)), array(a.w, a.n),
              array(a.y, reach(a.y_stride, a.y_inner)), Argument::value(s)},
             small ? grid(blocks_for(a.rows, 4), 128) : grid(a.rows, 256));
}

}  // namespace argon::metal
