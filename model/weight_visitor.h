// Every weight of a model that a backend is given, with what it is for: placing them and counting their bytes
// beforehand go the same way.
#pragma once

#include <array>
#include <span>

#include "model/weights.h"

namespace argon {

enum class WeightKind { kEmbedding, kOutput, kMixers, kGdn, kAttention, kNgrams, kRouting };

// visitor.matrix(kind, WeightMatrix&), .vector(kind, const float*&, count), .table(WeightMatrix&) and
// .experts(span of the ExpertMatrix pointers of a layer), for what the model has. `w` has the members of
// Weights; a tied output is not visited.
template <class W, class Visitor>
void visit_weights(W& w, bool tied_output, const ModelConfig& c, Visitor&& v) {
  const auto matrices = [&](WeightKind kind, auto... all) {
    for (auto* m : {all...}) {
      if (m->data != nullptr) v.matrix(kind, *m);
    }
  };
  const auto vector = [&](WeightKind kind, auto& p, int64_t n) {
    if (p != nullptr) v.vector(kind, p, n);
  };
  const auto mixer = [&](auto& m) {
    vector(WeightKind::kMixers, m.norm, c.CH());
    matrices(WeightKind::kMixers, &m.down, &m.up, &m.inject);
  };
  matrices(WeightKind::kEmbedding, &w.embed);
  if (!tied_output) matrices(WeightKind::kOutput, &w.output);
  if (w.table.data != nullptr) v.table(w.table);
  mixer(w.head_mix);
  for (auto& l : w.layers) {
    mixer(l.attn_mix);
    mixer(l.ffn_mix);
    auto& g = l.gdn;
    matrices(WeightKind::kGdn, &g.qkv, &g.z, &g.alpha, &g.beta, &g.out);
    vector(WeightKind::kGdn, g.conv, c.channels() * c.conv_taps);
    vector(WeightKind::kGdn, g.dt, c.hv);
    vector(WeightKind::kGdn, g.a, c.hv);
    vector(WeightKind::kGdn, g.norm, c.D);
    auto& a = l.attention;
    matrices(WeightKind::kAttention, &a.q, &a.k, &a.v, &a.out, &a.index_q, &a.index_k);
    vector(WeightKind::kAttention, a.q_norm, c.dh);
    vector(WeightKind::kAttention, a.k_norm, c.dh);
    vector(WeightKind::kAttention, a.index_q_norm, c.di);
    vector(WeightKind::kAttention, a.index_k_norm, c.di);
    auto& e = l.ple;
    matrices(WeightKind::kNgrams, &e.key, &e.value);
    vector(WeightKind::kNgrams, e.conv, c.CH() * c.ple_taps);
    for (auto* p : {&e.norm_key, &e.norm_query, &e.norm_conv}) vector(WeightKind::kNgrams, *p, c.CH());
    auto& m = l.moe;
    matrices(WeightKind::kRouting, &m.router, &m.shared_router, &m.shared_gate, &m.shared_up, &m.shared_down);
    if (m.gate.first.data != nullptr) {
      const std::array all{&m.gate, &m.up, &m.down};
      v.experts(std::span(all));
    }
  }
}

}  // namespace argon
