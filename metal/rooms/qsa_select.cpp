#include <algorithm>

#include "metal/kernels/qsa_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {

void run(Launcher& l, const ops::QsaSelectArgs& a) {
  if (a.T == 0) return;
  const char* const path = "metal/kernels/qsa_select.metal";
  // The last token sees most blocks. Scores are kept for as many tokens as 64 MiB hold; when none is scored,
  // one of each is still needed as an argument.
  const int64_t most = std::max<int64_t>((a.position0 + a.T) / a.r, 1);
  const bool scored = most > a.budget;
  const int64_t rows = scored ? std::clamp<int64_t>((int64_t{16} << 20) / most, 1, a.T) : a.T;
  const int64_t n = scored ? rows * most : 1;
  const uint32_t* scores = l.scratch_array<uint32_t>(n);
  if (scores == nullptr) return;
  for (int64_t t0 = 0; t0 < a.T; t0 += rows) {
    const int64_t stop = std::min(t0 + rows, a.T);
    const Argument sizes =
        Argument::value(QsaSelectMetalArgs{static_cast<uint64_t>(most), u32(stop), u32(t0), u32(a.position0),
                                           u32(a.ni), u32(a.di), u32(a.r), u32(a.budget)});
    if (scored) {
      const int64_t simdgroups = std::min<int64_t>(stop - t0, 8);
      l.dispatch(path, "qsa_scores", {},
                 {array(a.iq, a.T * a.ni * a.di), array(a.keys, most * a.di), array(scores, n), sizes},
                 grid(blocks_for(most, 32), blocks_for(stop - t0, simdgroups), u32(32 * simdgroups)));
    }
    l.dispatch(path, "qsa_pick", {},
               {array(scores, n), array(a.kept, a.T * a.budget), array(a.count, a.T), sizes},
               grid(stop - t0, 256));
  }
}

}  // namespace argon::metal
