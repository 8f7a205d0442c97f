#include "model/model.h"

#include <algorithm>

#include "base/contract.h"
#include "chat/chat.h"

namespace argon {
namespace {

class Fnv {
 public:
  void add(const void* data, size_t n) {
    const uint8_t* p = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < n; ++i) h_ = (h_ ^ p[i]) * 0x100000001b3u;
  }
  void add(uint64_t v) { add(&v, sizeof v); }
  uint64_t value() const { return h_; }

 private:
  uint64_t h_ = 0xcbf29ce484222325u;
};

uint64_t fingerprint_of(const GgufFile& file) {
  Fnv h;
  h.add(kContractVersion);
  for (const GgufTensor& t : file.tensors()) {
    h.add(t.name.data(), t.name.size());
    h.add(static_cast<uint64_t>(t.type));
    for (int64_t d : t.dims) h.add(static_cast<uint64_t>(d));
    h.add(t.data, std::min<uint64_t>(t.bytes, 64));
  }
  return h.value();
}

std::string one_line(std::string_view text, size_t limit) {
  std::string out;
  for (char c : text.substr(0, limit)) out += (c >= ' ' && c <= '~') ? c : ' ';
  return out + (text.size() > limit ? "..." : "");
}

// A sampling default that the file may give; values out of range are left alone, not taken.
std::optional<float> sampling_value(const GgufFile& file, const char* key, float low, float high) {
  const auto v = file.has(key) ? file.get_f32(key) : Result<float>(bad_input(""));
  if (!v.ok() || *v < low || *v > high) return std::nullopt;
  return *v;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Model::load_tokenizer(const GgufFile& file) {
  const auto optional_id = [&](const char* key, std::optional<int32_t>& out) -> Status {
    if (!file.has(key)) return {};
    ARGON_ASSIGN_OR_RETURN(const uint32_t id, file.get_u32(key));
    if (id > INT32_MAX)
      return bad_input(file.name() + ": key " + key + " is " + std::to_string(id) + ": wanted a token id");
    out = static_cast<int32_t>(id);
    return {};
  };
  ARGON_ASSIGN_OR_RETURN(const std::string_view kind, file.get_string("tokenizer.ggml.model"));
  if (kind != "gpt2") {
    return unsupported(file.name() + ": key tokenizer.ggml.model is '" + one_line(kind, 40) +
                       "': this engine reads 'gpt2' (byte-level BPE)");
  }
  TokenizerData d;
  ARGON_ASSIGN_OR_RETURN(const auto tokens, file.get_strings("tokenizer.ggml.tokens"));
  ARGON_ASSIGN_OR_RETURN(const auto merges, file.get_strings("tokenizer.ggml.merges"));
  ARGON_ASSIGN_OR_RETURN(const auto types, file.get_i64s("tokenizer.ggml.token_type"));
  ARGON_ASSIGN_OR_RETURN(const std::string_view pre, file.get_string("tokenizer.ggml.pre"));
  d.tokens.assign(tokens.begin(), tokens.end());
  d.merges.assign(merges.begin(), merges.end());
  for (int64_t t : types) d.types.push_back(t >= 0 && t <= 6 ? static_cast<int32_t>(t) : 0);
  d.pre = std::string(pre);
  ARGON_RETURN_IF_ERROR(optional_id("tokenizer.ggml.eos_token_id", d.eos));
  ARGON_RETURN_IF_ERROR(optional_id("tokenizer.ggml.eot_token_id", d.eot));
  ARGON_RETURN_IF_ERROR(optional_id("tokenizer.ggml.bos_token_id", d.bos));
  ARGON_RETURN_IF_ERROR(optional_id("tokenizer.ggml.padding_token_id", d.pad));
  if (file.has("tokenizer.ggml.add_bos_token")) {
    ARGON_ASSIGN_OR_RETURN(d.add_bos, file.get_bool("tokenizer.ggml.add_bos_token"));
  }
  auto made = Tokenizer::create(std::move(d));
  if (!made.ok()) return Status(made.status().code(), file.name() + ": " + made.status().message());
  return made;
}

Result<std::unique_ptr<Model>> Model::load(const std::string& path, ops::Backend& backend,
                                           const Progress& progress) {
  const auto step = [&](double fraction, const char* what) {
    if (progress) progress(fraction, what);
  };
  std::unique_ptr<Model> m(new Model);
  step(0.0, "reading the header");
  ARGON_ASSIGN_OR_RETURN(m->file_, GgufFile::open(path));
  const GgufFile& file = *m->file_;
  step(0.3, "checking the sizes");
  ARGON_ASSIGN_OR_RETURN(m->config_, ModelConfig::read(file));
  step(0.4, "binding the weights");
  ARGON_ASSIGN_OR_RETURN(
      m->weights_, Weights::bind(file, m->config_, [&](WeightType t) { return backend.can_compute(t); }));
  step(0.7, "building the tokenizer");
  ARGON_ASSIGN_OR_RETURN(m->tokenizer_, load_tokenizer(file));
  if (static_cast<int64_t>(m->tokenizer_->size()) > m->config_.V) {
    return bad_input(path + ": the tokenizer has " + std::to_string(m->tokenizer_->size()) +
                     " tokens, token_embd.weight " + std::to_string(m->config_.V) +
                     " rows: wanted no more tokens than rows");
  }
  m->warnings_ = m->weights_.warnings;
  if (file.has("tokenizer.chat_template")) {
    ARGON_ASSIGN_OR_RETURN(const std::string_view chat, file.get_string("tokenizer.chat_template"));
    m->can_think_ = chat.find("enable_thinking") != std::string_view::npos;
    if (!is_builtin_template(chat)) {
      m->warnings_.push_back("the file has a chat template of its own, which is not used (it begins: " +
                             one_line(chat, 60) + "); the built-in ChatML format is");
    }
  }
  m->sampling_.temperature = sampling_value(file, "general.sampling.temp", 0.0f, 100.0f);
  m->sampling_.top_p = sampling_value(file, "general.sampling.top_p", 1e-6f, 1.0f);
  m->sampling_.min_p = sampling_value(file, "general.sampling.min_p", 0.0f, 0.999f);
  m->sampling_.repeat_penalty = sampling_value(file, "general.sampling.penalty_repeat", 0.01f, 100.0f);
  if (const auto k = sampling_value(file, "general.sampling.top_k", 0.0f, 1e9f))
    m->sampling_.top_k = static_cast<int32_t>(*k);
  m->fingerprint_ = fingerprint_of(file);
  step(1.0, "ready");
  return m;
}

}  // namespace argon
