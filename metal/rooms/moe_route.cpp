#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::MoeRouteArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::MoeGroupArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}

}  // namespace argon::metal
