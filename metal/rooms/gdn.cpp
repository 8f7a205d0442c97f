#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::GdnPreArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::GdnScanArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::GdnPostArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}

}  // namespace argon::metal
