#include <algorithm>

#include "metal/kernels/qsa_args.h"
#include "metal/rooms/rooms.h"

namespace argon::metal {
namespace {

// Fewer threadgroups than this leave a GPU idle; then every segment becomes one.
constexpr int64_t kEnoughThreadgroups = 64;
constexpr int64_t kMaxHeads = 16;  // simdgroups of a threadgroup, as in the kernel

void attend(Launcher& l, const ops::QsaAttentionArgs& a) {
  if (a.dh > 1024 || a.dh % 4 != 0) {
    return l.fail(unsupported("no Metal kernel attends with heads of " + std::to_string(a.dh) +
                              " values (wanted: a multiple of 4, at most 1024): use --backend cpu"));
  }
  const char* const path = "metal/kernels/qsa_attention.metal";
  const bool f32 = a.type == ops::KvType::kF32;
  const char* const entry = a.dh <= 64    ? (f32 ? "qsa_attention_f32_64" : "qsa_attention_f16_64")
                            : a.dh <= 128 ? (f32 ? "qsa_attention_f32_128" : "qsa_attention_f16_128")
                            : a.dh <= 256 ? (f32 ? "qsa_attention_f32_256" : "qsa_attention_f16_256")
                                          : (f32 ? "qsa_attention_f32_1024" : "qsa_attention_f16_1024");
  // The most tokens that a query keeps: all of them while their blocks fit the budget.
  const int64_t visible = a.position0 + a.T, selected = a.budget * a.r + a.r - 1;
  const int64_t most = visible / a.r <= a.budget ? visible : std::min(visible, selected);
  const int64_t segments = (most + ops::kAttentionSegment - 1) / ops::kAttentionSegment;
  const bool split = segments > 1 && a.T * a.nkv < kEnoughThreadgroups;

  const QsaAttentionMetalArgs s{u32(a.position0), u32(a.nq),     u32(a.nkv),   u32(a.dh),
                                u32(a.r),         u32(a.budget), u32(segments)};
  const int64_t values = a.T * a.nq * a.dh, partials = a.T * a.nq * segments * (a.dh + 2);
  float* partial = split ? l.scratch_array<float>(partials) : nullptr;
  if (split && partial == nullptr) return;
  const auto cache = [&](const void* p) {
    return bytes(p, static_cast<size_t>(visible * a.nkv * a.dh * ops::kv_bytes(a.type)));
  };
  const Argument q = array(a.q, 2 * values), kept = array(a.kept, a.T * a.budget),
                 count = array(a.count, a.T);
  const int64_t per_kv = a.nq / a.nkv, heads = std::min(per_kv, kMaxHeads);
  const int64_t parts = (per_kv + heads - 1) / heads;
  l.dispatch(path, entry, {Constant::of(0, split)},
             {q, cache(a.k), cache(a.v), kept, count, split ? array(partial, partials) : array(a.out, values),
              Argument::value(s)},
             {{u32(a.T), u32(a.nkv * parts), split ? u32(segments) : 1}, {u32(32 * heads), 1, 1}, {}});
  if (!split) return;
  l.dispatch(path, "qsa_attention_merge", {Constant::of(0, split)},
             {array(partial, partials), q, kept, count, array(a.out, values), Argument::value(s)},
             {{blocks_for(a.dh, 64), u32(a.T * a.nq), 1}, {64, 1, 1}, {}});
}

}  // namespace

void run(Launcher& l, const ops::QsaAttentionArgs& a) {
  if (a.T == 0) return;
  attend(l, a);
  if (a.out_q.codes != nullptr) run(l, quantized(a));
}

}  // namespace argon::metal
