#include "metal/kernels/moe_route_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

const char* const kFile = "metal/kernels/moe_route.metal";

}  // namespace

void run(Launcher& l, const ops::MoeRouteArgs& a) {
  const MoeRouteMetalArgs s{u32(a.T), u32(a.E), u32(a.K)};
  l.dispatch(kFile, "moe_route", {},
             {array(a.logits, a.T * a.E), array(a.shared, a.T), array(a.ids, a.T * a.K),
              array(a.w, a.T * a.K), array(a.sg, a.T), Argument::value(s)},
             {{u32(a.T), 1, 1}, {32, 1, 1}, {u32(a.E) * 4}});
}

void run(Launcher& l, const ops::MoeGroupArgs& a) {
  const MoeRouteMetalArgs s{u32(a.T), u32(a.E), u32(a.K)};
  const int64_t slots = a.T * a.K;
  l.dispatch(kFile, "moe_group", {},
             {array(a.ids, slots), array(a.expert_begin, a.E + 1), array(a.slot_row, slots),
              array(a.slot, slots), Argument::value(s)},
             grid(blocks_for(a.E + 1, 8), 256));
}

}  // namespace argon::metal
