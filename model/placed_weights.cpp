#include "model/placed_weights.h"

namespace argon {
namespace {

// Places tensor after tensor; after a failure it does nothing more.
class Placer {
 public:
  explicit Placer(ops::Backend& backend) : backend_(backend) {}

  void matrix(ops::WeightMatrix& w) {
    if (w.data != nullptr) w.data = put(w.data, static_cast<size_t>(w.rows) * w.row_bytes);
  }
  void experts(ops::ExpertMatrix& e) {
    const size_t one = static_cast<size_t>(e.first.rows) * e.first.row_bytes;
    if (e.first.data != nullptr)
      e.first.data = put(e.first.data, static_cast<size_t>(e.experts - 1) * e.expert_bytes + one);
  }
  void vector(const float*& v, int64_t n) {
    if (v != nullptr) v = static_cast<const float*>(put(v, static_cast<size_t>(n) * sizeof(float)));
  }
  const Status& status() const { return status_; }

 private:
  const void* put(const void* host, size_t bytes) {
    if (!status_.ok()) return nullptr;
    auto placed = backend_.place(host, bytes);
    if (placed.ok()) return *placed;
    status_ = placed.status();
    return nullptr;
  }
  ops::Backend& backend_;
  Status status_;
};

void place_mixer(Placer& p, MixerWeights& m, const ModelConfig& c) {
  p.vector(m.norm, c.CH());
  for (auto* w : {&m.down, &m.up, &m.inject}) p.matrix(*w);
}

void place_layer(Placer& p, LayerWeights& l, const ModelConfig& c) {
  place_mixer(p, l.attn_mix, c);
  place_mixer(p, l.ffn_mix, c);
  GdnWeights& g = l.gdn;
  for (auto* w : {&g.qkv, &g.z, &g.alpha, &g.beta, &g.out}) p.matrix(*w);
  p.vector(g.conv, c.channels() * c.conv_taps);
  p.vector(g.dt, c.hv);
  p.vector(g.a, c.hv);
  p.vector(g.norm, c.D);
  AttentionWeights& a = l.attention;
  for (auto* w : {&a.q, &a.k, &a.v, &a.out, &a.index_q, &a.index_k}) p.matrix(*w);
  p.vector(a.q_norm, c.dh);
  p.vector(a.k_norm, c.dh);
  p.vector(a.index_q_norm, c.di);
  p.vector(a.index_k_norm, c.di);
  PleWeights& e = l.ple;
  for (auto* w : {&e.key, &e.value}) p.matrix(*w);
  p.vector(e.conv, c.CH() * c.ple_taps);
  for (const float** v : {&e.norm_key, &e.norm_query, &e.norm_conv}) p.vector(*v, c.CH());
  MoeWeights& m = l.moe;
  for (auto* w : {&m.router, &m.shared_router, &m.shared_gate, &m.shared_up, &m.shared_down}) p.matrix(*w);
  for (auto* w : {&m.gate, &m.up, &m.down}) p.experts(*w);
}

}  // namespace

Result<PlacedWeights> PlacedWeights::place(const Weights& weights, const ModelConfig& config,
                                           ops::Backend& backend) {
  PlacedWeights w{weights.embed, weights.output, weights.table, weights.head_mix, weights.layers};
  Placer p(backend);
  p.matrix(w.embed);
  if (weights.tied_output) {
    w.output.data = w.embed.data;
  } else {
    p.matrix(w.output);
  }
  p.matrix(w.table);
  place_mixer(p, w.head_mix, config);
  for (LayerWeights& l : w.layers) place_layer(p, l, config);
  if (!p.status().ok()) return p.status();
  return w;
}

}  // namespace argon
