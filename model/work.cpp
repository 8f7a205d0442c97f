#include "model/work.h"

#include <cmath>

#include "model/tensor_specs.h"

namespace argon {
namespace {

// What part of a tensor a pass reads, and how often each of its values is multiplied.
struct Use {
  double read, multiplied;
};

Use use_of(const TensorSpec& spec, const ModelConfig& c, const GgufTensor& t, bool tied, double T) {
  const double rows = t.dims.size() > 1 ? static_cast<double>(t.dims[1]) : 1.0;
  if (spec.is_experts()) {
    const double share = static_cast<double>(c.K) / static_cast<double>(c.E);
    return {1.0 - std::pow(1.0 - share, T), T * share};
  }
  if (spec.place == Place::kPleModel)
    return {std::min(T * static_cast<double>(c.ple_heads()) / rows, 1.0), 0.0};
  const bool embedding = spec.name == "token_embd.weight";
  if (embedding && !tied) return {std::min(T / static_cast<double>(c.V), 1.0), 0.0};
  if (embedding || spec.name == "output.weight") return {1.0, 1.0};
  return {1.0, t.dims.size() > 1 ? T : 0.0};
}

}  // namespace

Work pass_work(const GgufFile& file, const ModelConfig& c, int64_t T) {
  Work work;
  const bool tied = file.find_tensor("output.weight") == nullptr;
  const auto add = [&](const TensorSpec& spec, int64_t l) {
    const GgufTensor* t = file.find_tensor(spec_tensor_name(spec, l));
    if (t == nullptr) return;
    const Use use = use_of(spec, c, *t, tied, static_cast<double>(T));
    work.values += use.read * static_cast<double>(t->values());
    work.bytes += use.read * static_cast<double>(t->bytes);
    work.multiply_adds += use.multiplied * static_cast<double>(t->values());
  };
  for (const TensorSpec& spec : tensor_specs()) {
    if (spec_in_model(spec, c)) add(spec, -1);
    for (int64_t l = 0; l < c.L; ++l) {
      if (spec_in_block(spec, c, l)) add(spec, l);
    }
  }
  return work;
}

}  // namespace argon
