#include "metal/kernels/qsa_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::QsaBlockKeysArgs& a) {
  if (a.blocks == 0) return;
  const int64_t tokens = (a.first + a.blocks) * a.r;
  const QsaBlockKeysMetalArgs s{u32(a.first), u32(a.blocks), u32(a.r), u32(a.di), u32(a.rot), a.eps};
  l.dispatch("metal/kernels/qsa_select.metal",
             a.type == ops::KvType::kF32 ? "qsa_block_keys_f32" : "qsa_block_keys_f16", {},
             {bytes(a.raw, static_cast<size_t>(tokens * a.di * ops::kv_bytes(a.type))), array(a.w, a.di),
              array(a.rope_table, (tokens - a.r + 1) * a.rot), array(a.keys, (a.first + a.blocks) * a.di),
              Argument::value(s)},
             grid(blocks_for(a.blocks, 4), 128));
}

}  // namespace argon::metal
