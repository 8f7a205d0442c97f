#include "metal/kernels/embed_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::EmbedArgs& a) {
  const EmbedMetalArgs s{a.w.row_bytes, u32(a.w.cols), u32(a.copies)};
  const bool plain = is_plain_float(a.w.type);
  l.dispatch("metal/kernels/embed.metal", plain ? "embed_float" : "embed_blocks",
             {Constant::of(0, static_cast<uint32_t>(a.w.type))},
             {bytes(a.w.data, static_cast<size_t>(a.w.rows) * a.w.row_bytes), array(a.ids, a.n),
              array(a.y, a.n * a.copies * a.w.cols), Argument::value(s)},
             grid(blocks_for(plain ? a.w.cols : a.w.cols / 32, 32), a.n, 32));
}

}  // namespace argon::metal
