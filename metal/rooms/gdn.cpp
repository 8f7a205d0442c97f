#include "metal/kernels/gdn_args.h"
#include "metal/kernels/memory_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

const char* const kAny = "metal/kernels/gdn.metal";
const char* const kFast = "metal/kernels/gdn_prompt.metal";  // heads of 128
constexpr int64_t kFastD = 128;

GdnMetalArgs fast_args(const ops::GdnShape& s, float eps) { return {u32(s.T), u32(s.hk), u32(s.hv), eps}; }
GdnAnyMetalArgs any_args(const ops::GdnShape& s, float eps) {
  return {u32(s.T), u32(s.hk), u32(s.hv), u32(s.D), eps};
}
// The scan's head schedule, and float outputs.
std::array<Constant, 3> fast_constants(bool grouped) {
  return {Constant::of(0, grouped), Constant::of(1, false), Constant::of(2, true)};
}

}  // namespace

void run(Launcher& l, const ops::GdnPreArgs& a) {
  const ops::GdnShape& s = a.s;
  const int64_t ch = channels(s), keys = s.T * s.hk, values = s.T * s.hv;
  if (s.T == 0) return;
  std::array<Argument, 14> arguments{
      array(a.qkv, s.T * ch),  array(a.alpha, values),    array(a.beta, values),    array(a.conv_w, 4 * ch),
      array(a.a, s.hv),        array(a.dt, s.hv),         array(a.history, 3 * ch), array(a.qn, keys * s.D),
      array(a.kn, keys * s.D), array(a.vc, values * s.D), array(a.gb, 2 * values),  array(a.kq, keys)};
  if (s.D != kFastD) {
    const Argument sizes = Argument::value(any_args(s, a.eps));
    arguments[12] = sizes;
    l.dispatch(kAny, "gdn_pre_any", {}, std::span(arguments).first(13),
               grid(blocks_for(s.hk + s.hv, 8), s.T, 256));
    l.dispatch(kAny, "gdn_history", {}, {arguments[0], arguments[6], sizes}, grid(blocks_for(ch, 256), 256));
    return;
  }
  float* history = l.scratch_array<float>(3 * ch);
  arguments[12] = array(history, 3 * ch);
  arguments[13] = Argument::value(fast_args(s, a.eps));
  l.dispatch(kFast, "gdn_pre", fast_constants(false), arguments, grid(s.T, 256));
  l.dispatch("metal/kernels/memory.metal", "copy_4", {},
             {arguments[12], arguments[6], Argument::value(MemoryMetalArgs{static_cast<uint64_t>(3 * ch)})},
             grid(blocks_for(3 * ch, 256), 256));
}

void run(Launcher& l, const ops::GdnScanArgs& a) {
  const ops::GdnShape& s = a.s;
  const int64_t keys = s.T * s.hk, values = s.T * s.hv;
  if (s.T == 0) return;
  const bool fast = s.D == kFastD;
  const std::array<Argument, 8> arguments{
      array(a.qn, keys * s.D),
      array(a.kn, keys * s.D),
      array(a.vc, values * s.D),
      array(a.gb, 2 * values),
      array(a.kq, keys),
      array(a.state, s.hv * s.D * s.D),
      array(a.o, values * s.D),
      fast ? Argument::value(fast_args(s, 0.0f)) : Argument::value(any_args(s, 0.0f))};
  if (fast) {
    l.dispatch(kFast, "gdn_scanr_4", fast_constants(s.hv % s.hk == 0), arguments, grid(s.hv * 4, 128));
  } else {
    l.dispatch(kAny, "gdn_scan_any", {}, arguments, grid(blocks_for(s.hv * s.D, 64), 64));
  }
}

void run(Launcher& l, const ops::GdnPostArgs& a) {
  const ops::GdnShape& s = a.s;
  const int64_t n = s.T * s.hv * s.D;
  const Argument o = array(a.o, n), z = array(a.z, n), w = array(a.norm_w, s.D), y = array(a.y, n);
  if (s.D == kFastD) {
    const Argument arguments[] = {o, z, w, Argument::none(), y, Argument::value(fast_args(s, a.eps))};
    l.dispatch(kFast, "gdn_post", fast_constants(false), arguments, grid(s.T, 256));
  } else {
    l.dispatch(kAny, "gdn_post_any", {}, {o, z, w, y, Argument::value(any_args(s, a.eps))},
               grid(blocks_for(s.hv, 8), s.T, 256));
  }
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

}  // namespace argon::metal
