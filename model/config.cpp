#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "gguf/text.h"

namespace argon {
namespace {

constexpr std::string_view kArch = "qwen4exp";
constexpr std::string_view kPrefix = "qwen4exp.";
constexpr std::string_view kScaling = "qwen4exp.rope.scaling.";
constexpr int64_t kMaxWide = int64_t{1} << 20;

// One number with its range. Keys are given without the prefix.
struct Number {
  std::string_view key;
  int64_t ModelConfig::*field;
  int64_t least;
  int64_t most;
};

constexpr Number kNumbers[] = {
    {"context_length", &ModelConfig::context_length, 1, int64_t{1} << 24},
    {"embedding_length", &ModelConfig::H, 1, 1 << 16},
    {"block_count", &ModelConfig::L, 1, 1024},
    {"hyper_connection.count", &ModelConfig::C, 1, 16},
    {"hyper_connection.low_rank", &ModelConfig::R, 1, 1 << 16},
    {"expert_count", &ModelConfig::E, 1, 4096},
    {"expert_used_count", &ModelConfig::K, 1, 256},
    {"expert_feed_forward_length", &ModelConfig::F, 1, 1 << 16},
    {"expert_shared_feed_forward_length", &ModelConfig::Fs, 1, 1 << 16},
    {"ssm.group_count", &ModelConfig::hk, 1, 1024},
    {"ssm.time_step_rank", &ModelConfig::hv, 1, 1024},
    {"ssm.state_size", &ModelConfig::D, 8, 1024},
    {"ssm.conv_kernel", &ModelConfig::conv_taps, 1, 16},
    {"attention.head_count", &ModelConfig::nq, 1, 1024},
    {"attention.head_count_kv", &ModelConfig::nkv, 1, 1024},
    {"attention.key_length", &ModelConfig::dh, 1, 1024},
    {"rope.dimension_count", &ModelConfig::rot, 2, 1024},
    {"attention.indexer.head_count", &ModelConfig::ni, 1, 256},
    {"attention.indexer.key_length", &ModelConfig::di, 1, 1024},
    {"attention.indexer.top_k", &ModelConfig::B, 1, 1 << 20},
    {"full_attention_interval", &ModelConfig::interval, 1, 1024},
};

constexpr Number kPleNumbers[] = {
    {"ple.ngram_size", &ModelConfig::ngram, 2, 8},
    {"ple.heads_per_ngram", &ModelConfig::G, 1, 64},
    {"ple.conv_kernel", &ModelConfig::ple_taps, 1, 16},
    {"embedding_length_per_layer_input", &ModelConfig::W, 1, 1 << 16},
};

constexpr SizeRange kVocabularyRange{1, int64_t{1} << 24}, kBlockRange{1, 1024}, kDraftRange{0, 8};

// Keys that rules below read, or that are known and say nothing the engine needs.
constexpr std::string_view kOtherKnownKeys[] = {
    "feed_forward_length",  // the width of dense feed-forward layers, of which this architecture has none
    "vocab_size",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.compress_ratios",
    "rope.freq_base",
    "rope.dimension_sections",
    "ssm.inner_size",
    "ple.layers",
    "ple.eos_token_id",
    "ple.image_token_id",
    "ple.layer_multipliers",
    "ple.head_offsets",
    "ple.head_vocab_sizes",
    "nextn_predict_layers",
};

class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, ModelConfig* config) : file_(file), c_(*config) {}

  Status read() {
    ARGON_RETURN_IF_ERROR(check_architecture());
    for (const Number& n : kNumbers) ARGON_RETURN_IF_ERROR(number(n));
    ARGON_RETURN_IF_ERROR(read_draft());
    ARGON_RETURN_IF_ERROR(check_sizes());
    ARGON_RETURN_IF_ERROR(read_compress_ratios());
    ARGON_RETURN_IF_ERROR(read_rope());
    ARGON_RETURN_IF_ERROR(read_vocabulary());
    ARGON_RETURN_IF_ERROR(read_ple());
    return collect_other_keys();
  }

 private:
  static std::string full(std::string_view key) { return std::string(kPrefix) + std::string(key); }
  bool has(std::string_view key) const { return file_.has(full(key)); }

  Status bad(const std::string& text) const {
    return bad_input(fmt::format("{}: {}; convert the model again", file_.name(), text));
  }
  Status cannot(const std::string& text) const {
    return unsupported(fmt::format("{}: {}", file_.name(), text));
  }

  Status integer(std::string_view key, int64_t least, int64_t most, int64_t* out) const {
    ARGON_ASSIGN_OR_RETURN(const int64_t v, file_.get_i64(full(key)));
    if (v < least || v > most) {
      return bad(fmt::format("key '{}{}' is {}, wanted {} to {}", kPrefix, key, v, least, most));
    }
    *out = v;
    return {};
  }
  Status number(const Number& n) { return integer(n.key, n.least, n.most, &(c_.*n.field)); }

  // An array of integers with a length in range; checked before anything is allocated.
  Status check_array(std::string_view key, uint64_t least, uint64_t most) const {
    const GgufValue* v = file_.find(full(key));
    if (v != nullptr && v->is_array() && (v->size() < least || v->size() > most)) {
      const std::string wanted =
          least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
      return bad(fmt::format("key '{}{}' has {} elements, wanted {}", kPrefix, key, v->size(), wanted));
    }
    return {};
  }

  Status check_architecture() {
    ARGON_ASSIGN_OR_RETURN(const std::string_view arch, file_.get_string("general.architecture"));
    if (arch != kArch) {
      return cannot(fmt::format("the architecture is {}, wanted '{}': argon runs this family only",
                                quote(arch), kArch));
    }
    if (const GgufValue* v = file_.find("general.name"); v != nullptr && v->as_string())
      c_.name = *v->as_string();
    return {};
  }

  Status read_draft() {
    if (!has("nextn_predict_layers")) return {};
    ARGON_RETURN_IF_ERROR(
        integer("nextn_predict_layers", kDraftRange.least, kDraftRange.most, &c_.draft_blocks));
    if (c_.draft_blocks >= c_.L) {
      return bad(fmt::format(
          "key '{0}nextn_predict_layers' is {1}, wanted less than '{0}block_count' = {2}, which counts "
          "the draft blocks too",
          kPrefix, c_.draft_blocks, c_.L));
    }
    c_.L -= c_.draft_blocks;
    return {};
  }

  Status divides(std::string_view big, int64_t b, std::string_view small, int64_t s) const {
    if (b % s == 0) return {};
    return bad(fmt::format("key '{}{}' is {}, wanted a multiple of '{}' = {}", kPrefix, big, b, small, s));
  }
  Status equals(std::string_view key, int64_t wanted, std::string_view why) const {
    int64_t found = 0;
    ARGON_RETURN_IF_ERROR(integer(key, 0, std::numeric_limits<int64_t>::max(), &found));
    if (found == wanted) return {};
    return bad(fmt::format("key '{}{}' is {}, wanted {} ({})", kPrefix, key, found, wanted, why));
  }
  Status at_most(std::string_view what, int64_t found, int64_t most) const {
    if (found <= most) return {};
    return bad(fmt::format("{} is {}, wanted at most {}", what, found, most));
  }

  Status check_sizes() const {
    ARGON_RETURN_IF_ERROR(divides("ssm.time_step_rank", c_.hv, "ssm.group_count", c_.hk));
    ARGON_RETURN_IF_ERROR(divides("attention.head_count", c_.nq, "attention.head_count_kv", c_.nkv));
    ARGON_RETURN_IF_ERROR(equals("ssm.inner_size", c_.hv * c_.D, "ssm.time_step_rank x ssm.state_size"));
    ARGON_RETURN_IF_ERROR(
        equals("attention.value_length", c_.dh, "attention.key_length: this architecture has one size"));
    if (c_.K > c_.E) {
      return bad(fmt::format("key '{0}expert_used_count' is {1}, wanted at most '{0}expert_count' = {2}",
                             kPrefix, c_.K, c_.E));
    }
    if (c_.D % 8 != 0) {
      return cannot(fmt::format(
          "key '{}ssm.state_size' is {}, wanted a multiple of 8: the gated delta rule sums in 8 parts",
          kPrefix, c_.D));
    }
    if (c_.conv_taps != 4) {
      return cannot(
          fmt::format("key '{}ssm.conv_kernel' is {}, wanted 4: this engine's GDN convolution has 4 taps",
                      kPrefix, c_.conv_taps));
    }
    ARGON_RETURN_IF_ERROR(at_most("hyper_connection.count x embedding_length", c_.CH(), kMaxWide));
    ARGON_RETURN_IF_ERROR(at_most("the width of the GDN convolution", c_.channels(), kMaxWide));
    ARGON_RETURN_IF_ERROR(
        at_most("attention.head_count x attention.key_length", c_.nq * c_.dh, kMaxWide / 2));
    return at_most("attention.indexer.head_count x attention.indexer.key_length", c_.ni * c_.di, kMaxWide);
  }

  // The block size r stands at every attention layer, 0 elsewhere; draft blocks may have either.
  Status read_compress_ratios() {
    constexpr std::string_view kKey = "attention.compress_ratios";
    const auto blocks = static_cast<uint64_t>(c_.L + c_.draft_blocks);
    if (c_.attention_layers() == 0) {
      return bad(fmt::format(
          "key '{0}full_attention_interval' is {1}, wanted at most the {2} layers: no layer would be an "
          "attention layer",
          kPrefix, c_.interval, c_.L));
    }
    ARGON_RETURN_IF_ERROR(check_array(kKey, blocks, blocks));
    ARGON_ASSIGN_OR_RETURN(const std::vector<int64_t> ratios, file_.get_i64s(full(kKey)));
    c_.r = ratios[static_cast<size_t>(c_.interval - 1)];
    if (c_.r < kBlockRange.least || c_.r > kBlockRange.most) {
      return bad(fmt::format("key '{}{}' is {} at attention layer {}, wanted a block size of {} to {}",
                             kPrefix, kKey, c_.r, c_.interval - 1, kBlockRange.least, kBlockRange.most));
    }
    for (size_t l = 0; l < ratios.size(); ++l) {
      const bool draft = l >= static_cast<size_t>(c_.L);
      const int64_t wanted = draft || c_.is_attention(static_cast<int64_t>(l)) ? c_.r : 0;
      if (ratios[l] == wanted || (draft && ratios[l] == 0)) continue;
      return bad(fmt::format(
          "key '{0}{1}' is {2} at layer {3}, wanted {4} (every layer l with (l+1) % {5} == 0 is an "
          "attention layer: '{0}full_attention_interval')",
          kPrefix, kKey, ratios[l], l, wanted, c_.interval));
    }
    return divides("attention.indexer.top_k", c_.B, "the block size of attention.compress_ratios", c_.r);
  }

  Status read_rope() {
    ARGON_ASSIGN_OR_RETURN(c_.eps, file_.get_f32(full("attention.layer_norm_rms_epsilon")));
    if (!(c_.eps >= std::numeric_limits<float>::min()) || c_.eps > 0.01f) {
      return bad(
          fmt::format("key '{}attention.layer_norm_rms_epsilon' is {}, wanted more than 0 and at most 0.01",
                      kPrefix, c_.eps));
    }
    ARGON_ASSIGN_OR_RETURN(c_.rope_base, file_.get_f32(full("rope.freq_base")));
    if (!(c_.rope_base >= 1.0f)) {
      return bad(fmt::format("key '{}rope.freq_base' is {}, wanted at least 1", kPrefix, c_.rope_base));
    }
    if (c_.rot % 2 != 0 || c_.rot > c_.dh || c_.rot > c_.di) {
      return bad(
          fmt::format("key '{}rope.dimension_count' is {}, wanted an even number, at most the head sizes {} "
                      "(attention) and {} (indexer)",
                      kPrefix, c_.rot, c_.dh, c_.di));
    }
    if (has("rope.dimension_sections")) {
      ARGON_RETURN_IF_ERROR(check_array("rope.dimension_sections", 1, 4));
      ARGON_ASSIGN_OR_RETURN(c_.rope_sections, file_.get_i64s(full("rope.dimension_sections")));
      int64_t sum = 0;
      for (int64_t s : c_.rope_sections) {
        if (s < 0 || s > c_.rot) {
          return bad(fmt::format("key '{}rope.dimension_sections' has a section of {}, wanted 0 to {}",
                                 kPrefix, s, c_.rot / 2));
        }
        sum += s;
      }
      if (sum != c_.rot / 2) {
        return bad(fmt::format(
            "key '{}rope.dimension_sections' sums to {}, wanted {} (half of rope.dimension_count)", kPrefix,
            sum, c_.rot / 2));
      }
    }
    return read_rope_scaling();
  }

  // Scaling changes every angle: a key that is not understood must stop the load, or the model would answer
  // nonsense.
  Status read_rope_scaling() const {
    for (const GgufEntry& e : file_.metadata()) {
      if (!e.key.starts_with(kScaling)) continue;
      const std::string_view rest = e.key.substr(kScaling.size());
      if (rest == "type") {
        const auto type = e.value.as_string();
        if (type == std::string_view("none")) continue;
        return cannot(fmt::format(
            "key {} is {}, wanted 'none': this engine does not scale rotary angles; choose a file "
            "without scaling",
            quote(e.key), type ? quote(*type) : std::string(e.value.type_name())));
      }
      if (rest == "factor" && e.value.as_f64() == 1.0) continue;
      return cannot(fmt::format(
          "key {} asks for rotary scaling, which this engine does not do; choose a file without it",
          quote(e.key)));
    }
    return {};
  }

  Status read_vocabulary() {
    constexpr int64_t kMost = kVocabularyRange.most;
    const GgufValue* tokens = file_.find("tokenizer.ggml.tokens");
    const GgufTensor* embed = file_.find_tensor("token_embd.weight");
    if (has("vocab_size")) {
      ARGON_RETURN_IF_ERROR(integer("vocab_size", 1, kMost, &c_.V));
    } else if (embed != nullptr) {
      c_.V = embed->dims[1];
    } else if (tokens != nullptr && tokens->is_array()) {
      c_.V = static_cast<int64_t>(std::min<uint64_t>(tokens->size(), uint64_t{kMost} + 1));
    }
    if (c_.V < 1 || c_.V > kMost)
      return bad(fmt::format("the vocabulary has {} tokens, wanted 1 to {}", c_.V, kMost));
    if (tokens != nullptr && tokens->is_array() && tokens->size() > static_cast<uint64_t>(c_.V)) {
      return bad(
          fmt::format("key 'tokenizer.ggml.tokens' has {} elements, wanted at most the vocabulary size {}",
                      tokens->size(), c_.V));
    }
    return {};
  }

  Status token_id(std::string_view key, int32_t* out) const {
    int64_t id = 0;
    ARGON_RETURN_IF_ERROR(integer(key, 0, c_.V - 1, &id));
    *out = static_cast<int32_t>(id);
    return {};
  }

  Status read_ple() {
    if (!has("ple.layers")) {
      for (const GgufEntry& e : file_.metadata()) {
        if (e.key.starts_with("qwen4exp.ple.")) {
          return bad(fmt::format("key {} is there but 'qwen4exp.ple.layers' is missing, wanted both or none",
                                 quote(e.key)));
        }
      }
      return {};
    }
    ARGON_RETURN_IF_ERROR(check_array("ple.layers", 0, 1024));
    ARGON_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, file_.get_i64s(full("ple.layers")));
    if (layers.empty()) return {};
    if (layers.size() > 1) {
      return cannot(fmt::format(
          "key '{}ple.layers' names {} layers, wanted one: this engine has the n-gram module in one "
          "layer",
          kPrefix, layers.size()));
    }
    if (layers[0] < 0 || layers[0] >= c_.L) {
      return bad(
          fmt::format("key '{}ple.layers' names layer {}, wanted 0 to {}", kPrefix, layers[0], c_.L - 1));
    }
    c_.ple_layer = layers[0];
    for (const Number& n : kPleNumbers) ARGON_RETURN_IF_ERROR(number(n));
    ARGON_RETURN_IF_ERROR(at_most("the width of the looked-up n-gram rows", c_.ple_width(), kMaxWide));
    ARGON_RETURN_IF_ERROR(token_id("ple.eos_token_id", &c_.ple_eos));
    if (has("ple.image_token_id")) ARGON_RETURN_IF_ERROR(token_id("ple.image_token_id", &c_.ple_image));
    return read_ple_tables();
  }

  Status read_ple_tables() {
    struct Table {
      std::string_view key;
      std::vector<uint64_t> ModelConfig::*field;
      int64_t length;
    };
    const Table tables[] = {
        {"ple.layer_multipliers", &ModelConfig::multipliers, c_.ngram},
        {"ple.head_offsets", &ModelConfig::head_offsets, c_.ple_heads()},
        {"ple.head_vocab_sizes", &ModelConfig::head_sizes, c_.ple_heads()},
    };
    for (const Table& t : tables) {
      ARGON_RETURN_IF_ERROR(
          check_array(t.key, static_cast<uint64_t>(t.length), static_cast<uint64_t>(t.length)));
      ARGON_ASSIGN_OR_RETURN(c_.*t.field, file_.get_u64s(full(t.key)));
    }
    for (size_t i = 0; i < c_.multipliers.size(); ++i) {
      if (c_.multipliers[i] == 0) {
        return bad(
            fmt::format("key '{}ple.layer_multipliers' is 0 at element {}, wanted a factor", kPrefix, i));
      }
    }
    constexpr uint64_t kMostRows = std::numeric_limits<int32_t>::max();
    for (size_t i = 0; i < c_.head_sizes.size(); ++i) {
      const uint64_t size = c_.head_sizes[i];
      const uint64_t offset = c_.head_offsets[i];
      if (size < 1 || size > kMostRows || offset > kMostRows - size) {
        return bad(fmt::format(
            "n-gram head {} has rows {} to {} + {}, wanted at least one row and none above {} (keys "
            "'{}ple.head_offsets', '...head_vocab_sizes')",
            i, offset, offset, size, kMostRows, kPrefix));
      }
      c_.table_rows = std::max(c_.table_rows, static_cast<int64_t>(offset + size));
    }
    return {};
  }

  Status collect_other_keys() {
    for (const GgufEntry& e : file_.metadata()) {
      if (!e.key.starts_with(kPrefix) || e.key.starts_with(kScaling)) continue;
      const std::string_view key = e.key.substr(kPrefix.size());
      const auto is_key = [key](const Number& n) { return n.key == key; };
      if (std::any_of(std::begin(kNumbers), std::end(kNumbers), is_key)) continue;
      if (std::any_of(std::begin(kPleNumbers), std::end(kPleNumbers), is_key)) continue;
      if (std::find(std::begin(kOtherKnownKeys), std::end(kOtherKnownKeys), key) != std::end(kOtherKnownKeys))
        continue;
      c_.other_keys.emplace_back(e.key);
    }
    return {};
  }

  const GgufFile& file_;
  ModelConfig& c_;
};

}  // namespace

Result<ModelConfig> ModelConfig::read(const GgufFile& file) {
  ModelConfig config;
  ARGON_RETURN_IF_ERROR(ConfigReader(file, &config).read());
  return config;
}

SizeRange size_range(int64_t ModelConfig::*size) {
  if (size == &ModelConfig::V) return kVocabularyRange;
  if (size == &ModelConfig::r) return kBlockRange;
  if (size == &ModelConfig::draft_blocks) return kDraftRange;
  for (const Number& n : kNumbers) {
    if (n.field == size) return {n.least, n.most};
  }
  for (const Number& n : kPleNumbers) {
    if (n.field == size) return {n.least, n.most};
  }
  return {-1, 1023};  // ple_layer; -1: no n-gram module
}

StateBytes state_bytes(const ModelConfig& c, uint64_t tokens, ops::KvType type) {
  const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  const uint64_t stored = u(ops::kv_bytes(type));
  const uint64_t attention = u(c.attention_layers());
  const uint64_t gdn = u(c.gdn_layers());
  StateBytes s;
  s.kv = attention * tokens * 2 * u(c.nkv * c.dh) * stored;
  s.indexer_keys = attention * tokens * u(c.di) * stored;
  s.gdn_state = gdn * u(c.hv * c.D * c.D) * sizeof(float);
  s.gdn_conv = gdn * u((c.conv_taps - 1) * c.channels()) * sizeof(float);
  if (c.has_ple()) {
    s.ple = u((c.ple_taps - 1) * c.ngram * c.CH()) * sizeof(float) + u(c.ngram - 1) * sizeof(int32_t);
  }
  return s;
}

}  // namespace argon
