#include "metal/kernels/ngram_embed_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

const char* const kFile = "metal/kernels/ngram_embed.metal";
constexpr uint32_t kThreads = 128;

}  // namespace

void run(Launcher& l, const ops::NgramHashArgs& a) {
  const int64_t heads = (a.n - 1) * a.G;
  const NgramHashMetalArgs s{u32(a.n), u32(a.G), a.eos};
  l.dispatch(kFile, "ngram_hash", {},
             {array(a.tokens, a.n - 1 + a.T), array(a.multipliers, a.n), array(a.sizes, heads),
              array(a.offsets, heads), array(a.rows, a.T * heads), Argument::value(s)},
             {{u32(heads), u32(a.T), 1}, {1, 1, 1}, {}});
}

void run(Launcher& l, const ops::NgramGateArgs& a) {
  const int64_t wide = a.T * a.C * a.H, weights = a.C * a.H;
  const NgramGateMetalArgs s{u32(a.C), u32(a.H), a.eps};
  l.dispatch(kFile, "ngram_gate", {},
             {array(a.key, wide), array(a.value, a.T * a.H), array(a.x, wide), array(a.w_key, weights),
              array(a.w_query, weights), array(a.w_conv, weights), array(a.v, wide), array(a.nv, wide),
              Argument::value(s)},
             grid(a.T * a.C, a.H < 512 ? 32 : 256));
}

void run(Launcher& l, const ops::NgramConvArgs& a) {
  const int64_t n = a.T * a.channels, window = (a.taps - 1) * a.n * a.channels;
  if (a.T == 0) return;
  const Argument sizes =
      Argument::value(NgramConvMetalArgs{u32(a.T), u32(a.channels), u32(a.taps), u32(a.n)});
  l.dispatch(kFile, "ngram_conv", {},
             {array(a.v, n), array(a.nv, n), array(a.conv_w, a.channels * a.taps), array(a.window, window),
              array(a.x, n), sizes},
             grid(blocks_for(a.channels, kThreads), a.T, kThreads));
  l.dispatch(kFile, "ngram_window", {}, {array(a.nv, n), array(a.window, window), sizes},
             grid(blocks_for(a.channels, kThreads), kThreads));
}

}  // namespace argon::metal
