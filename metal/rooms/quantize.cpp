#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::QuantizeArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}

}  // namespace argon::metal
