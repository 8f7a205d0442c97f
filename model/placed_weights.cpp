#include "model/placed_weights.h"

#include "model/weight_visitor.h"

namespace argon {
namespace {

// Places tensor after tensor; after a failure it does nothing more.
class Placer {
 public:
  explicit Placer(ops::Backend& backend) : backend_(backend) {}

  void matrix(WeightKind, ops::WeightMatrix& w) {
    take(w.data, [&] { return backend_.place(w.data, static_cast<size_t>(w.rows) * w.row_bytes); });
  }
  void table(ops::WeightMatrix& w) {
    take(w.data, [&] { return backend_.place_table(w.data, static_cast<size_t>(w.rows) * w.row_bytes); });
  }
  void vector(WeightKind, const float*& v, int64_t n) {
    const void* data = v;
    take(data, [&] { return backend_.place(v, static_cast<size_t>(n) * sizeof(float)); });
    v = static_cast<const float*>(data);
  }
  void experts(std::span<ops::ExpertMatrix* const> of_a_layer) {
    if (status_.ok()) status_ = backend_.place_experts(of_a_layer);
  }
  const Status& status() const { return status_; }

 private:
  template <class Place>
  void take(const void*& data, Place place) {
    if (!status_.ok()) return;
    auto placed = place();
    if (placed.ok()) {
      data = *placed;
    } else {
      status_ = placed.status();
    }
  }
  ops::Backend& backend_;
  Status status_;
};

}  // namespace

Result<PlacedWeights> PlacedWeights::place(const Weights& weights, const ModelConfig& config,
                                           ops::Backend& backend) {
  PlacedWeights w{weights.embed, weights.output, weights.table, weights.head_mix, weights.layers};
  Placer p(backend);
  visit_weights(w, weights.tied_output, config, p);
  if (weights.tied_output) w.output.data = w.embed.data;
  if (!p.status().ok()) return p.status();
  return w;
}

}  // namespace argon
