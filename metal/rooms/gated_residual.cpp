#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::GrNormArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::GrApplyArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::GrGateArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}
void run(Launcher& l, const ops::GrMixArgs&) {
  l.fail(unsupported("this operation has no Metal kernel yet: use --backend cpu"));
}

}  // namespace argon::metal
