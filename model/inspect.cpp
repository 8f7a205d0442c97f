#include "model/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "gguf/text.h"
#include "model/tensor_specs.h"
#include "model/weights.h"
#include "model/work.h"

namespace argon {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kShownElements = 16;

void count_types(const GgufFile& file, const InspectOptions& options, InspectReport* out) {
  std::map<WeightType, InspectReport::Type> types;
  for (const GgufTensor& t : file.tensors()) {
    const bool computable = options.can_compute == nullptr || options.can_compute(t.type);
    auto [it, added] = types.try_emplace(
        t.type, InspectReport::Type{std::string(weight_type_name(t.type)), computable, 0, 0, 0});
    ++it->second.tensors;
    it->second.values += static_cast<uint64_t>(t.values());
    it->second.bytes += t.bytes;
    out->values += static_cast<uint64_t>(t.values());
  }
  for (auto& [type, share] : types) out->types.push_back(share);
  std::stable_sort(
      out->types.begin(), out->types.end(),
      [](const InspectReport::Type& a, const InspectReport::Type& b) { return a.bytes > b.bytes; });
}

bool in_draft(std::string_view name, const ModelConfig& c) {
  for (int64_t l = c.L; l < c.L + c.draft_blocks; ++l) {
    if (name.starts_with(fmt::format("blk.{}.", l))) return true;
  }
  return false;
}

void judge_types(const GgufFile& file, InspectReport* out) {
  for (const InspectReport::Type& type : out->types) {
    if (type.computable) continue;
    // Draft blocks are not run yet: their types are no obstacle.
    const auto obstacle =
        std::find_if(file.tensors().begin(), file.tensors().end(), [&](const GgufTensor& t) {
          return weight_type_name(t.type) == type.name && !(out->config && in_draft(t.name, *out->config));
        });
    if (obstacle == file.tensors().end()) continue;
    out->problems.push_back(
        fmt::format("{} tensors are stored as {} ({} first), which this engine cannot compute with",
                    type.tensors, type.name, quote(obstacle->name)));
  }
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double v = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (v >= 1024 && unit + 1 < std::size(kUnits)) {
    v /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", v, kUnits[unit]);
}

std::string count_text(uint64_t n) {
  const auto v = static_cast<double>(n);
  if (n >= 1000000000) return fmt::format("{:.2f} G", v / 1e9);
  if (n >= 1000000) return fmt::format("{:.2f} M", v / 1e6);
  return fmt::format("{}", n);
}

std::string value_text(const GgufValue& v) {
  if (v.is_array()) {
    std::string out = fmt::format("[{} x {}]", v.size(), gguf_type_name(v.element_type()));
    for (uint64_t i = 0; i < std::min<uint64_t>(v.size(), kShownElements); ++i) {
      out += " " + value_text(v.at(i));
    }
    return v.size() > kShownElements ? out + " ..." : out;
  }
  if (const auto s = v.as_string()) return quote(*s);
  if (const auto b = v.as_bool()) return *b ? "true" : "false";
  if (const auto i = v.as_i64()) return fmt::format("{}", *i);
  if (const auto u = v.as_u64()) return fmt::format("{}", *u);
  return v.type() == GgufType::kF32 ? fmt::format("{}", static_cast<float>(*v.as_f64()))
                                    : fmt::format("{}", *v.as_f64());
}

Json value_json(const GgufValue& v) {
  if (v.is_array()) {
    Json first = Json::array();
    for (uint64_t i = 0; i < std::min<uint64_t>(v.size(), kShownElements); ++i)
      first.push_back(value_json(v.at(i)));
    if (v.size() <= kShownElements) return first;
    return {{"type", gguf_type_name(v.element_type())}, {"count", v.size()}, {"first", std::move(first)}};
  }
  if (const auto s = v.as_string()) return std::string(*s);
  if (const auto b = v.as_bool()) return *b;
  if (const auto i = v.as_i64()) return *i;
  if (const auto u = v.as_u64()) return *u;
  return *v.as_f64();
}

std::string dims_text(const GgufTensor& t) {
  std::string out;
  for (int d = t.n_dims - 1; d >= 0; --d)
    out += fmt::format("{}{}", out.empty() ? "" : " x ", t.dims[static_cast<size_t>(d)]);
  return out;
}

struct Letter {
  const char* name;
  int64_t ModelConfig::*field;
  const char* meaning;
};
constexpr Letter kLetters[] = {
    {"H", &ModelConfig::H, "hidden size"},
    {"L", &ModelConfig::L, "layers"},
    {"C", &ModelConfig::C, "residual streams"},
    {"R", &ModelConfig::R, "low rank of the stream mixer"},
    {"V", &ModelConfig::V, "vocabulary"},
    {"E", &ModelConfig::E, "experts"},
    {"K", &ModelConfig::K, "experts per token"},
    {"F", &ModelConfig::F, "expert width"},
    {"hk", &ModelConfig::hk, "GDN key heads"},
    {"hv", &ModelConfig::hv, "GDN value heads"},
    {"D", &ModelConfig::D, "GDN head size"},
    {"nq", &ModelConfig::nq, "attention query heads"},
    {"nkv", &ModelConfig::nkv, "attention key-value heads"},
    {"dh", &ModelConfig::dh, "attention head size"},
    {"rot", &ModelConfig::rot, "rotary dims"},
    {"ni", &ModelConfig::ni, "indexer heads"},
    {"di", &ModelConfig::di, "indexer head size"},
    {"B", &ModelConfig::B, "attention budget in tokens"},
    {"r", &ModelConfig::r, "indexer block size"},
};

std::string placement_text(const GpuPlacement& p) {
  std::string out =
      fmt::format("with {} of GPU memory: {} used\n", bytes_text(p.budget), bytes_text(p.gpu_bytes));
  for (const GpuPlacement::Part& part : p.gpu)
    out += fmt::format("  {:<28} {:>11}\n", part.name, bytes_text(part.bytes));
  if (!p.gpu_experts_of_layer.empty()) {
    const auto [least, most] =
        std::minmax_element(p.gpu_experts_of_layer.begin(), p.gpu_experts_of_layer.end());
    out += fmt::format("  {} of {} experts in the GPU's memory, {} a layer; {} computed by the CPU\n",
                       p.gpu_experts, p.experts,
                       *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most),
                       bytes_text(p.host_experts_bytes));
  }
  if (p.file_table_bytes > 0)
    out += fmt::format("  the n-gram table stays in the file ({})\n", bytes_text(p.file_table_bytes));
  return out;
}

Json placement_json(const GpuPlacement& p) {
  Json parts = Json::object();
  for (const GpuPlacement::Part& part : p.gpu) parts[part.name] = part.bytes;
  return {{"budget", p.budget},
          {"gpu_bytes", p.gpu_bytes},
          {"parts", std::move(parts)},
          {"experts", p.experts},
          {"gpu_experts", p.gpu_experts},
          {"gpu_experts_of_layer", p.gpu_experts_of_layer},
          {"cpu_experts_bytes", p.host_experts_bytes},
          {"file_table_bytes", p.file_table_bytes}};
}

}  // namespace

InspectReport inspect(const GgufFile& file, const InspectOptions& options) {
  InspectReport out;
  out.file = &file;
  out.kv = options.kv;
  out.list_tensors = options.tensors;
  for (int p = 0; p < file.parts(); ++p) out.parts.push_back({file.part_path(p), file.part_bytes(p)});
  count_types(file, options, &out);
  Result<ModelConfig> config = ModelConfig::read(file);
  if (!config.ok()) {
    out.problems.push_back(config.status().message());
    return out;
  }
  out.config = *config;
  out.tokens = options.tokens != 0 ? options.tokens : static_cast<uint64_t>(config->context_length);
  out.state = state_bytes(*config, out.tokens, options.kv);
  const Work step = pass_work(file, *config, 1);
  out.active_values = static_cast<uint64_t>(std::llround(step.values));
  out.active_bytes = static_cast<uint64_t>(std::llround(step.bytes));
  // Names and shapes first, whatever the types; then every type that is in the way, not only the first.
  Result<Weights> weights = Weights::bind(file, *config, [](WeightType) { return true; });
  if (weights.ok()) {
    out.warnings = weights->warnings;
  } else {
    out.problems.push_back(weights.status().message());
  }
  judge_types(file, &out);
  return out;
}

namespace {

// One line for each bad tensor, before the verdict.
std::string check_text(const WeightCheck& c) {
  if (c.bad.empty()) {
    return fmt::format(
        "every weight was read ({}{}): all numbers are finite\n", bytes_text(c.bytes),
        c.skipped == 0 ? "" : fmt::format("; {} tensors without a decoder left out", c.skipped));
  }
  std::string out;
  for (const BadTensor& b : c.bad) {
    out += fmt::format("{}: {} numbers are NaN or infinite, the first at row {}, column {}\n", quote(b.name),
                       b.count, b.row, b.column);
  }
  return out;
}

}  // namespace

std::string inspect_text(const InspectReport& r) {
  std::string out =
      fmt::format("{}: GGUF version {}, {} in {} file{}, {} tensors, {} weights\n", r.file->name(),
                  r.file->version(), bytes_text(r.file->file_bytes()), r.parts.size(),
                  r.parts.size() == 1 ? "" : "s", r.file->tensors().size(), count_text(r.values));
  for (const InspectReport::Part& p : r.parts) {
    if (r.parts.size() > 1) out += fmt::format("  {}  {}\n", printable_path(p.path), bytes_text(p.bytes));
  }
  out += "\nmetadata\n";
  for (const GgufEntry& e : r.file->metadata()) {
    const std::string key = quote(e.key);
    out += fmt::format("  {} = {}\n", key.substr(1, key.size() - 2), value_text(e.value));
  }
  out += fmt::format("\n{:<8} {:>7} {:>10} {:>11} {:>6}\n", "type", "tensors", "weights", "bytes", "bits");
  for (const InspectReport::Type& t : r.types) {
    out +=
        fmt::format("{:<8} {:>7} {:>10} {:>11} {:>6.2f}{}\n", t.name, t.tensors, count_text(t.values),
                    bytes_text(t.bytes), 8.0 * static_cast<double>(t.bytes) / static_cast<double>(t.values),
                    t.computable ? "" : "  cannot be computed with");
  }
  if (r.list_tensors) {
    out += "\ntensors (rows x columns, slowest first)\n";
    for (const GgufTensor& t : r.file->tensors()) {
      const std::string name = quote(t.name);
      out += fmt::format("  {:<44} {:<8} {:>24} {:>11}\n", name.substr(1, name.size() - 2),
                         weight_type_name(t.type), dims_text(t), bytes_text(t.bytes));
    }
  }
  if (r.config) {
    out += "\nmodel\n";
    for (const Letter& l : kLetters)
      out += fmt::format("  {:<4} {:>8}  {}\n", l.name, (*r.config).*l.field, l.meaning);
    out += fmt::format("\none token reads {} weights, {}\n", count_text(r.active_values),
                       bytes_text(r.active_bytes));
    out += fmt::format(
        "memory for {} tokens with a {} cache: {} (keys and values {}, indexer keys {}, GDN {}, n-grams "
        "{})\n",
        r.tokens, r.kv == ops::KvType::kF16 ? "f16" : "f32", bytes_text(r.state.total()),
        bytes_text(r.state.kv), bytes_text(r.state.indexer_keys),
        bytes_text(r.state.gdn_state + r.state.gdn_conv), bytes_text(r.state.ple));
    if (r.placement) out += placement_text(*r.placement);
    for (const std::string& key : r.config->other_keys) out += fmt::format("not read: {}\n", quote(key));
  }
  for (const std::string& w : r.warnings) out += fmt::format("warning: {}\n", w);
  if (r.check) out += check_text(*r.check);
  out += r.runnable() ? "argon can run this file\n" : "argon cannot run this file:\n";
  for (const std::string& p : r.problems) out += fmt::format("  {}\n", p);
  if (r.check && !r.check->bad.empty())
    out += "  the file is damaged: fetch it again, or convert the model anew\n";
  return out;
}

std::string inspect_json(const InspectReport& r) {
  Json out;
  out["name"] = r.file->name();
  out["version"] = r.file->version();
  out["alignment"] = r.file->alignment();
  out["file_bytes"] = r.file->file_bytes();
  out["tensor_bytes"] = r.file->total_bytes();
  out["parameters"] = r.values;
  out["parts"] = Json::array();
  for (const InspectReport::Part& p : r.parts) out["parts"].push_back({{"path", p.path}, {"bytes", p.bytes}});
  out["metadata"] = Json::object();
  for (const GgufEntry& e : r.file->metadata()) out["metadata"][std::string(e.key)] = value_json(e.value);
  out["types"] = Json::array();
  for (const InspectReport::Type& t : r.types) {
    out["types"].push_back({{"type", t.name},
                            {"tensors", t.tensors},
                            {"weights", t.values},
                            {"bytes", t.bytes},
                            {"computable", t.computable}});
  }
  out["tensors"] = Json::array();
  for (const GgufTensor& t : r.file->tensors()) {
    std::vector<int64_t> shape(t.dims.begin(), t.dims.begin() + t.n_dims);
    std::reverse(shape.begin(), shape.end());
    out["tensors"].push_back({{"name", std::string(t.name)},
                              {"type", weight_type_name(t.type)},
                              {"shape", shape},
                              {"bytes", t.bytes},
                              {"part", t.part},
                              {"offset", t.file_offset}});
  }
  if (r.config) {
    Json sizes;
    for (const Letter& l : kLetters) sizes[l.name] = (*r.config).*l.field;
    out["sizes"] = std::move(sizes);
    out["active_parameters"] = r.active_values;
    out["active_bytes"] = r.active_bytes;
    out["context"] = {{"tokens", r.tokens},
                      {"kv_type", r.kv == ops::KvType::kF16 ? "f16" : "f32"},
                      {"bytes", r.state.total()},
                      {"kv", r.state.kv},
                      {"indexer_keys", r.state.indexer_keys},
                      {"gdn_state", r.state.gdn_state},
                      {"gdn_conv", r.state.gdn_conv},
                      {"ple", r.state.ple}};
    out["other_keys"] = r.config->other_keys;
  }
  if (r.placement) out["gpu_memory"] = placement_json(*r.placement);
  out["warnings"] = r.warnings;
  out["problems"] = r.problems;
  if (r.check) {
    out["check"] = {{"bytes", r.check->bytes}, {"skipped_tensors", r.check->skipped}, {"bad", Json::array()}};
    for (const BadTensor& b : r.check->bad) {
      out["check"]["bad"].push_back(
          {{"name", b.name}, {"count", b.count}, {"row", b.row}, {"column", b.column}});
    }
  }
  out["runnable"] = r.runnable();
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace argon
