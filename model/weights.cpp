#include "model/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/half.h"
#include "gguf/text.h"
#include "model/tensor_specs.h"

namespace argon {
namespace {

class Binder {
 public:
  Binder(const GgufFile& file, const ModelConfig& config, const std::function<bool(WeightType)>& can_compute,
         Weights* weights)
      : file_(file),
        c_(config),
        can_compute_(can_compute),
        w_(*weights),
        known_(file.tensors().size(), false) {}

  Status bind() {
    LayerWeights none;
    for (const TensorSpec& spec : tensor_specs()) {
      if (spec_in_model(spec, c_)) ARGON_RETURN_IF_ERROR(bind_one(spec, -1, &none));
    }
    w_.layers.resize(static_cast<size_t>(c_.L));
    for (int64_t l = 0; l < c_.L; ++l)
      ARGON_RETURN_IF_ERROR(bind_block(l, &w_.layers[static_cast<size_t>(l)]));
    ARGON_RETURN_IF_ERROR(bind_drafts());
    ARGON_RETURN_IF_ERROR(check_unknown());
    finish_tied_output();
    warn();
    return {};
  }

 private:
  Status bad(const std::string& text) const { return bad_input(fmt::format("{}: {}", file_.name(), text)); }

  Status bind_block(int64_t l, LayerWeights* layer) {
    for (const TensorSpec& spec : tensor_specs()) {
      if (spec_in_block(spec, c_, l)) ARGON_RETURN_IF_ERROR(bind_one(spec, l, layer));
    }
    return {};
  }

  // A file may announce draft blocks and leave their tensors to a file of their own: all or none.
  Status bind_drafts() {
    bool any = false;
    for (int64_t l = c_.L; l < c_.L + c_.draft_blocks; ++l) {
      const std::string prefix = fmt::format("blk.{}.", l);
      for (const GgufTensor& t : file_.tensors()) any = any || t.name.starts_with(prefix);
    }
    if (!any) return {};
    w_.drafts.resize(static_cast<size_t>(c_.draft_blocks));
    for (int64_t i = 0; i < c_.draft_blocks; ++i) {
      ARGON_RETURN_IF_ERROR(bind_block(c_.L + i, &w_.drafts[static_cast<size_t>(i)]));
    }
    return {};
  }

  std::string shape_text(const TensorSpec& spec) const {
    std::string sizes;
    std::string letters;
    for (Dim d : spec.shape) {
      if (d == Dim::kNone) continue;
      if (!sizes.empty()) {
        sizes += " x ";
        letters += " x ";
      }
      sizes += fmt::format("{}{}", d == Dim::kTableRows ? "at least " : "", dim_value(d, c_));
      letters += dim_name(d);
    }
    return fmt::format("{} ({})", sizes, letters);
  }

  static std::string shape_text(const GgufTensor& t) {
    std::string out;
    for (int d = t.n_dims - 1; d >= 0; --d)
      out += fmt::format("{}{}", out.empty() ? "" : " x ", t.dims[static_cast<size_t>(d)]);
    return out;
  }

  // Dimensions of size 1 at the slow end do not count; a vector of C*H may be stored as C rows of H.
  bool shape_fits(const TensorSpec& spec, const GgufTensor& t) const {
    std::array<int64_t, kGgufMaxDims> wanted = {1, 1, 1, 1};
    size_t n = 0;
    while (n < spec.shape.size() && spec.shape[n] != Dim::kNone) ++n;
    for (size_t i = 0; i < n; ++i) wanted[n - 1 - i] = dim_value(spec.shape[i], c_);
    if (spec.shape[0] == Dim::kTableRows)
      return t.dims[0] == wanted[0] && t.dims[1] >= wanted[1] && t.dims[2] * t.dims[3] == 1;
    if (spec.is_vector() && spec.shape[0] == Dim::kCH && n == 1 && t.dims[0] == c_.H) {
      return t.dims[1] == c_.C && t.dims[2] * t.dims[3] == 1;
    }
    return t.dims == wanted;
  }

  Status bind_one(const TensorSpec& spec, int64_t l, LayerWeights* layer) {
    const std::string name = spec_tensor_name(spec, l);
    const GgufTensor* t = file_.find_tensor(name);
    const bool fused =
        l >= 0 && file_.find_tensor(fmt::format("blk.{}.ffn_gate_up_exps.weight", l)) != nullptr;
    if (t == nullptr) {
      if (spec.need == Need::kTied || spec.need == Need::kFused || (spec.need == Need::kUnfused && fused))
        return {};
      return bad(fmt::format(
          "tensor '{}' is missing, wanted {}; the file is incomplete or not a whole model: convert or "
          "download it again",
          name, shape_text(spec)));
    }
    if (spec.need == Need::kUnfused && fused) {
      return bad(fmt::format(
          "tensors '{}' and 'blk.{}.ffn_gate_up_exps.weight' are both there, wanted one of them; convert "
          "the model again",
          name, l));
    }
    if (!shape_fits(spec, *t)) {
      return bad(fmt::format(
          "tensor '{}' is {}, wanted {}; sizes and metadata do not belong together: convert the model again",
          name, shape_text(*t), shape_text(spec)));
    }
    known_[static_cast<size_t>(t - file_.tensors().data())] = true;
    if (spec.is_vector()) return bind_vector(spec, *t, &std::get<VectorSlot>(spec.slot)(w_, *layer));

    if (l < c_.L && !can_compute_(t->type)) {
      return unsupported(
          fmt::format("{}: tensor '{}' is stored as {}, which this engine cannot compute with; choose a file "
                      "in another format",
                      file_.name(), name, weight_type_name(t->type)));
    }
    if (spec.structural && l < c_.L) {
      const WeightTypeInfo info = weight_type_info(t->type);
      if (info.block_bytes * 8 < info.block_length * 8) ++squeezed_[info.name];
    }
    const ops::WeightMatrix matrix = view(*t);
    if (const auto* slot = std::get_if<MatrixSlot>(&spec.slot)) {
      (*slot)(w_, *layer) = matrix;
      return {};
    }
    ops::ExpertMatrix& experts = std::get<ExpertSlot>(spec.slot)(w_, *layer);
    experts = {matrix, t->dims[2], static_cast<size_t>(matrix.rows) * matrix.row_bytes};
    if (spec.need == Need::kFused) split_fused(layer);
    return {};
  }

  // gate holds the fused tensor: its first F rows are gate's, the other F up's; both keep the fused stride.
  void split_fused(LayerWeights* layer) const {
    ops::ExpertMatrix& gate = layer->moe.gate;
    gate.first.rows = c_.F;
    layer->moe.up = gate;
    layer->moe.up.first.data =
        static_cast<const std::byte*>(gate.first.data) + static_cast<size_t>(c_.F) * gate.first.row_bytes;
  }

  ops::WeightMatrix view(const GgufTensor& t) {
    const void* data = t.data;
    // Kernels read f32 weights as floats; only a file with general.alignment below 4 needs the copy.
    if (reinterpret_cast<uintptr_t>(data) % alignof(float) != 0) {
      data = std::memcpy(own(t.bytes), t.data, t.bytes);
      ++unaligned_;
    }
    return {data, t.type, t.dims[1], t.dims[0], weight_row_bytes(t.type, t.dims[0])};
  }

  float* own(uint64_t bytes) {
    w_.copies.push_back(std::make_unique_for_overwrite<float[]>((bytes + sizeof(float) - 1) / sizeof(float)));
    w_.copied_bytes += bytes;
    return w_.copies.back().get();
  }

  Status bind_vector(const TensorSpec& spec, const GgufTensor& t, const float** out) {
    if (!is_plain_float(t.type)) {
      return unsupported(
          fmt::format("{}: tensor {} is stored as {}, wanted F32, F16 or BF16 for a vector; choose a file "
                      "in another format",
                      file_.name(), quote(t.name), weight_type_name(t.type)));
    }
    const auto n = static_cast<size_t>(t.values());
    if (t.type == WeightType::kF32 && reinterpret_cast<uintptr_t>(t.data) % alignof(float) == 0) {
      *out = reinterpret_cast<const float*>(t.data);
    } else {
      float* copy = own(n * sizeof(float));
      for (size_t i = 0; i < n; ++i) {
        if (t.type == WeightType::kF32) {
          std::memcpy(copy + i, t.data + i * sizeof(float), sizeof(float));
        } else {
          uint16_t h = 0;
          std::memcpy(&h, t.data + i * sizeof(h), sizeof(h));
          copy[i] = t.type == WeightType::kF16 ? f16_to_f32(h) : bf16_to_f32(h);
        }
      }
      *out = copy;
    }
    return check_values(spec, t, {*out, n});
  }

  Status check_values(const TensorSpec& spec, const GgufTensor& t, std::span<const float> values) const {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        return bad(fmt::format(
            "tensor {} holds {} at element {}, wanted finite values; the file is damaged: download or "
            "convert it again",
            quote(t.name), values[i], i));
      }
      if (spec.role == Role::kDecay && values[i] > 0) {
        return bad(fmt::format(
            "tensor {} holds {} at element {}, wanted -exp(A_log), which is never above 0; it was "
            "converted wrongly: convert the model again",
            quote(t.name), values[i], i));
      }
    }
    return {};
  }

  Status check_unknown() const {
    size_t count = 0;
    const GgufTensor* first = nullptr;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (known_[i]) continue;
      if (first == nullptr) first = &file_.tensors()[i];
      ++count;
    }
    if (first == nullptr) return {};
    const std::string more = count > 1 ? fmt::format(" (and {} more)", count - 1) : "";
    return bad(fmt::format(
        "tensor {}{} is not part of the model that the metadata describes; ignoring it could change "
        "answers: convert the model again or update argon",
        quote(first->name), more));
  }

  void finish_tied_output() {
    if (w_.output.data != nullptr) return;
    w_.output = w_.embed;
    w_.tied_output = true;
  }

  void warn() {
    if (!squeezed_.empty()) {
      int total = 0;
      std::string types;
      for (const auto& [name, count] : squeezed_) {
        total += count;
        types += fmt::format("{}{} in {}", types.empty() ? "" : ", ", count, name);
      }
      w_.warnings.push_back(
          fmt::format("{}: {} structural tensors (stream mixers, inject, router) are stored below 8 bits: "
                      "{}; such a model may ignore its prompt: prefer a file that keeps them in Q8_0 or "
                      "better",
                      file_.name(), total, types));
    }
    if (unaligned_ > 0) {
      w_.warnings.push_back(
          fmt::format("{}: {} tensors are not aligned and were copied to memory ({} bytes); convert the "
                      "model with general.alignment 32",
                      file_.name(), unaligned_, w_.copied_bytes));
    }
  }

  const GgufFile& file_;
  const ModelConfig& c_;
  const std::function<bool(WeightType)>& can_compute_;
  Weights& w_;
  std::vector<bool> known_;                   // by index in file_.tensors()
  std::map<std::string_view, int> squeezed_;  // structural tensors below 8 bits, by type
  int unaligned_ = 0;
};

}  // namespace

Result<Weights> Weights::bind(const GgufFile& file, const ModelConfig& config,
                              const std::function<bool(WeightType)>& can_compute) {
  Weights weights;
  ARGON_RETURN_IF_ERROR(Binder(file, config, can_compute, &weights).bind());
  return weights;
}

}  // namespace argon
