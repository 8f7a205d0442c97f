#include "metal/kernels/kv_store_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::KvStoreArgs& a) {
  if (a.rows == 0) return;
  const KvStoreMetalArgs s{u32(a.stride), u32(a.n)};
  const int64_t value = ops::kv_bytes(a.type);
  const auto* dst = static_cast<const std::byte*>(a.dst) + a.position0 * a.n * value;
  l.dispatch(
      "metal/kernels/kv_store.metal", a.type == ops::KvType::kF32 ? "kv_store_f32" : "kv_store_f16", {},
      {array(a.x, (a.rows - 1) * a.stride + a.n), array(dst, a.rows * a.n * value), Argument::value(s)},
      grid(blocks_for(a.n, 64), a.rows, 64));
}

}  // namespace argon::metal
