#include "model/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "model/tensor_specs.h"

namespace argon {
namespace {

bool is_prime(int64_t n) {
  if (n < 2) return false;
  for (int64_t i = 2; i * i <= n; ++i) {
    if (n % i == 0) return false;
  }
  return true;
}

uint64_t mix(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

// Head tables as published files have them: consecutive primes, one head after the other, odd multipliers.
void fill_ple(const SynthOptions& o, ModelConfig* c) {
  if (!c->has_ple() || !c->head_sizes.empty()) return;
  int64_t n = std::max<int64_t>(o.head_rows, 2) - 1;
  uint64_t offset = 0;
  for (int64_t i = 0; i < c->ple_heads(); ++i) {
    do ++n;
    while (!is_prime(n));
    c->head_offsets.push_back(offset);
    c->head_sizes.push_back(static_cast<uint64_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  for (int64_t i = 0; i < c->ngram; ++i) {
    c->multipliers.push_back(2 * (mix(o.seed + static_cast<uint64_t>(i) + 1) >> 20) + 1);
  }
  c->table_rows = (static_cast<int64_t>(offset) + 127) / 128 * 128;
}

std::vector<int32_t> narrow(const std::vector<int64_t>& v) {
  std::vector<int32_t> out;
  for (int64_t x : v) out.push_back(static_cast<int32_t>(x));
  return out;
}

void add_sizes(const ModelConfig& c, GgufHeader* h) {
  const auto u32 = [h](const char* key, int64_t v) {
    h->add_u32(fmt::format("qwen4exp.{}", key), static_cast<uint32_t>(v));
  };
  h->add_string("general.architecture", "qwen4exp");
  h->add_string("general.name", c.name.empty() ? "synthetic" : c.name);
  u32("block_count", c.L + c.draft_blocks);
  u32("context_length", c.context_length);
  u32("embedding_length", c.H);
  u32("feed_forward_length", c.F);
  u32("vocab_size", c.V);
  u32("attention.head_count", c.nq);
  u32("attention.head_count_kv", c.nkv);
  u32("attention.key_length", c.dh);
  u32("attention.value_length", c.dh);
  h->add_f32("qwen4exp.attention.layer_norm_rms_epsilon", c.eps);
  h->add_f32("qwen4exp.rope.freq_base", c.rope_base);
  u32("rope.dimension_count", c.rot);
  if (!c.rope_sections.empty()) h->add_i32s("qwen4exp.rope.dimension_sections", narrow(c.rope_sections));
  u32("expert_count", c.E);
  u32("expert_used_count", c.K);
  u32("expert_feed_forward_length", c.F);
  u32("expert_shared_feed_forward_length", c.Fs);
  u32("ssm.conv_kernel", c.conv_taps);
  u32("ssm.inner_size", c.hv * c.D);
  u32("ssm.state_size", c.D);
  u32("ssm.time_step_rank", c.hv);
  u32("ssm.group_count", c.hk);
  u32("hyper_connection.count", c.C);
  u32("hyper_connection.low_rank", c.R);
  u32("attention.indexer.head_count", c.ni);
  u32("attention.indexer.key_length", c.di);
  u32("attention.indexer.top_k", c.B);
  u32("full_attention_interval", c.interval);
  std::vector<int32_t> ratios;
  for (int64_t l = 0; l < c.L + c.draft_blocks; ++l) {
    ratios.push_back(l < c.L && c.is_attention(l) ? static_cast<int32_t>(c.r) : 0);
  }
  h->add_i32s("qwen4exp.attention.compress_ratios", ratios);
  if (c.draft_blocks > 0) u32("nextn_predict_layers", c.draft_blocks);
  if (!c.has_ple()) return;
  const int32_t layer[] = {static_cast<int32_t>(c.ple_layer)};
  h->add_i32s("qwen4exp.ple.layers", layer);
  u32("ple.ngram_size", c.ngram);
  u32("ple.heads_per_ngram", c.G);
  u32("ple.conv_kernel", c.ple_taps);
  u32("ple.eos_token_id", c.ple_eos);
  if (c.ple_image >= 0) u32("ple.image_token_id", c.ple_image);
  u32("embedding_length_per_layer_input", c.W);
  h->add_u64s("qwen4exp.ple.layer_multipliers", c.multipliers);
  h->add_u64s("qwen4exp.ple.head_offsets", c.head_offsets);
  h->add_u64s("qwen4exp.ple.head_vocab_sizes", c.head_sizes);
}

void add_placeholder_tokens(const ModelConfig& c, GgufHeader* h) {
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < c.V; ++i) tokens.push_back(fmt::format("<t{}>", i));
  h->add_string("tokenizer.ggml.model", "gpt2");
  h->add_string("tokenizer.ggml.pre", "qwen35");
  h->add_strings("tokenizer.ggml.tokens", tokens);
  h->add_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(tokens.size(), 1));
  h->add_strings("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  h->add_u32("tokenizer.ggml.eos_token_id", 0);
  h->add_u32("tokenizer.ggml.bos_token_id", 0);
}

// Published files keep these small matrices in full floats.
bool always_f32(std::string_view name) {
  for (std::string_view end : {"inject.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight",
                               "ssm_alpha.weight", "ssm_beta.weight"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

WeightType choose_type(const SynthOptions& o, const TensorSpec& spec, int64_t columns) {
  if (spec.is_vector() || always_f32(spec.name)) return WeightType::kF32;
  if (spec.place == Place::kPleModel) return o.table;
  if (spec.is_experts()) return spec.name.starts_with("ffn_down") ? o.down : o.gate_up;
  const WeightTypeInfo dense = weight_type_info(o.dense);
  const bool squeezed = spec.structural && dense.block_bytes * 8 < dense.block_length * 8;
  if (columns % dense.block_length == 0 && !squeezed) return o.dense;
  return columns % 32 == 0 ? WeightType::kQ8_0 : WeightType::kF32;
}

bool wanted(const SynthOptions& o, const TensorSpec& spec) {
  switch (spec.need) {
    case Need::kRequired:
      return true;
    case Need::kTied:
      return !o.tied_output;
    case Need::kUnfused:
      return !o.fused_gate_up;
    case Need::kFused:
      return o.fused_gate_up;
  }
  return true;
}

struct Plan {
  GgufHeader header;
  std::vector<const TensorSpec*> specs;  // of the header's tensors
};

void add_tensor(const SynthOptions& o, const ModelConfig& c, const TensorSpec& spec, int64_t l, Plan* plan) {
  if (!wanted(o, spec)) return;
  std::vector<int64_t> dims;
  for (Dim d : spec.shape) {
    if (d != Dim::kNone) dims.insert(dims.begin(), dim_value(d, c));
  }
  if (spec.shape[0] == Dim::kOne) dims.pop_back();
  plan->header.add_tensor(spec_tensor_name(spec, l), choose_type(o, spec, dims[0]), dims);
  plan->specs.push_back(&spec);
}

Result<Plan> make_plan(const SynthOptions& o) {
  for (WeightType t : {o.gate_up, o.down, o.dense, o.table}) {
    if (!can_fill(t)) {
      return unsupported(
          fmt::format("{} holds no weights; choose a float or a quantised type", weight_type_name(t)));
    }
  }
  ModelConfig c = o.config;
  fill_ple(o, &c);
  if (o.tokenizer && c.has_ple()) c.ple_eos = static_cast<int32_t>(c.V - 5);  // <|endoftext|>
  Plan plan;
  add_sizes(c, &plan.header);
  if (o.tokenizer) {
    ARGON_RETURN_IF_ERROR(add_synthetic_tokenizer(c.V, &plan.header));
  } else {
    add_placeholder_tokens(c, &plan.header);
  }
  // The reader decides whether the sizes make a model, before tensors are made of them.
  {
    ARGON_ASSIGN_OR_RETURN(const std::string bytes, plan.header.encode());
    ARGON_ASSIGN_OR_RETURN(const auto file,
                           GgufFile::parse(std::as_bytes(std::span(bytes)), "synthetic model"));
    ARGON_RETURN_IF_ERROR(ModelConfig::read(*file).status());
  }
  for (const TensorSpec& spec : tensor_specs()) {
    if (spec_in_model(spec, c)) add_tensor(o, c, spec, -1, &plan);
  }
  for (int64_t l = 0; l < c.L + c.draft_blocks; ++l) {
    for (const TensorSpec& spec : tensor_specs()) {
      if (spec_in_block(spec, c, l)) add_tensor(o, c, spec, l, &plan);
    }
  }
  ARGON_RETURN_IF_ERROR(plan.header.status());
  return plan;
}

// A run of one tensor's data, starting at block `first` of it.
void fill_run(const TensorSpec& spec, const GgufHeader::Tensor& t, uint64_t seed, std::span<std::byte> out) {
  const auto constant = [&](float v) {
    for (size_t i = 0; i < out.size(); i += sizeof(v)) std::memcpy(out.data() + i, &v, sizeof(v));
  };
  switch (spec.role) {
    case Role::kNorm:
      return constant(1.0f);
    case Role::kDtBias:
      return constant(0.0f);
    case Role::kDecay:
      return constant(-0.7f);
    case Role::kConv:
      return fill_random(t.type, 0.5, seed, out);
    case Role::kWeight:
    case Role::kRouter:
      break;
  }
  fill_random(t.type, 1.0 / std::sqrt(static_cast<double>(t.dims[0])), seed, out);
}

// Makes all tensors' data in order and hands it to `sink` in runs of whole blocks, about a megabyte each.
Status generate(const Plan& plan, uint64_t seed, const SynthProgress& progress,
                const std::function<Status(std::span<const std::byte>)>& sink) {
  std::vector<std::byte> buffer;
  uint64_t done = 0;
  for (size_t i = 0; i < plan.specs.size(); ++i) {
    const GgufHeader::Tensor& t = plan.header.tensors()[i];
    const auto block = static_cast<uint64_t>(weight_type_info(t.type).block_bytes);
    const uint64_t run = std::max<uint64_t>((uint64_t{1} << 20) / block, 1) * block;
    for (uint64_t at = 0; at < t.bytes; at += run) {
      buffer.resize(static_cast<size_t>(std::min(run, t.bytes - at)));
      fill_run(*plan.specs[i], t, mix(seed + 1) ^ mix((uint64_t{i} << 40) + at + 1), buffer);
      ARGON_RETURN_IF_ERROR(sink(buffer));
      done += buffer.size();
      if (progress) progress(done, plan.header.data_bytes());
    }
  }
  return {};
}

}  // namespace

ModelConfig synth_real_sizes(int64_t layers) {
  ModelConfig c;
  c.context_length = 262144;
  c.H = 2560, c.L = layers, c.C = 4, c.R = 320, c.V = 248320;
  c.E = 512, c.K = 10, c.F = 640, c.Fs = 640;
  c.hk = 16, c.hv = 48, c.D = 128, c.conv_taps = 4;
  c.nq = 24, c.nkv = 2, c.dh = 256, c.rot = 64;
  c.ni = 4, c.di = 128, c.B = 2048, c.r = 4, c.interval = 4;
  c.eps = 1e-6f, c.rope_base = 1e7f, c.rope_sections = {11, 11, 10, 0};
  c.ple_layer = layers > 1 ? 1 : 0, c.ngram = 3, c.G = 8, c.W = 160, c.ple_taps = 4;
  return c;
}

Status write_synthetic(const std::string& path, const SynthOptions& options, const SynthProgress& progress) {
  ARGON_ASSIGN_OR_RETURN(const Plan plan, make_plan(options));
  ARGON_ASSIGN_OR_RETURN(const auto writer, GgufWriter::create(path, plan.header));
  ARGON_RETURN_IF_ERROR(generate(plan, options.seed, progress,
                                 [&](std::span<const std::byte> bytes) { return writer->append(bytes); }));
  return writer->finish();
}

Result<std::string> synthetic_bytes(const SynthOptions& options) {
  ARGON_ASSIGN_OR_RETURN(const Plan plan, make_plan(options));
  ARGON_ASSIGN_OR_RETURN(std::string out, plan.header.encode());
  const size_t start = out.size();
  out.resize(start + plan.header.data_bytes(), '\0');
  size_t tensor = 0;
  uint64_t filled = 0;
  const Status status = generate(plan, options.seed, nullptr, [&](std::span<const std::byte> bytes) {
    const GgufHeader::Tensor& t = plan.header.tensors()[tensor];
    std::memcpy(out.data() + start + t.offset + filled, bytes.data(), bytes.size());
    filled += bytes.size();
    if (filled == t.bytes) {
      ++tensor;
      filled = 0;
    }
    return Status();
  });
  ARGON_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace argon
