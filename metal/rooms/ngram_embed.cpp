#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::NgramHashArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::NgramGateArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::NgramConvArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}

}  // namespace argon::metal
