#include "app/cli/options.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <cmath>

#include "cpu/cpu_backend.h"

namespace argon::cli {

void add_model_option(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model, "GGUF file, any part of a split one (default: the bundled argon-tiny)")
      ->type_name("FILE");
}

void add_gpu_memory_option(CLI::App& app, EngineOptions& o) {
  app.add_option(
         "--gpu-memory", o.gpu_memory,
         "GPU memory to take at most, such as 12G; experts beyond it are computed by the CPU (default: "
         "what is free)")
      ->type_name("SIZE");
}

void add_engine_options(CLI::App& app, EngineOptions& o, bool with_context) {
  add_model_option(app, o.model);
  if (with_context) {
    app.add_option("-c,--context", o.context, "Tokens of context (default: what the model was made for)")
        ->type_name("N");
  }
  app.add_option("-t,--threads", o.threads, "Threads (default: the processors this process may use)")
      ->type_name("N");
  app.add_option("--kv", o.kv, "Type of the attention cache: f16 or f32")
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--pass", o.pass, "Tokens read at a time (changes speed and memory, never results)")
      ->type_name("N");
  app.add_option("--backend", o.backend, "What computes: " + app::backend_names())
      ->type_name("NAME")
      ->capture_default_str();
  add_gpu_memory_option(app, o);
  app.add_option("--isa", o.isa,
                 "Instruction set of the CPU, at most what the machine has: scalar, avx2, ...")
      ->type_name("LEVEL");
}

void add_answer_options(CLI::App& app, AnswerOptions& o) {
  app.add_option("-n,--max-tokens", o.max_tokens,
                 "Tokens to write at most; -1: until the model ends (default)")
      ->type_name("N");
  app.add_option(
         "--temp", o.temperature,
         "Temperature, 0 = always the likeliest token (default: the file's, else 0 for the bundled model, "
         "else 0.7)")
      ->type_name("X");
  app.add_option("--top-k", o.top_k, "Draw from the K likeliest; 0: off (default: the file's, else 20)")
      ->type_name("K");
  app.add_option("--top-p", o.top_p, "Draw from the likeliest that sum to P (default: the file's, else 0.8)")
      ->type_name("P");
  app.add_option("--min-p", o.min_p,
                 "Leave out what is less likely than P times the best (default: the file's, else 0)")
      ->type_name("P");
  app.add_option("--repeat-penalty", o.repeat_penalty,
                 "Make recent tokens less likely; 1: off (default: the file's, else 1)")
      ->type_name("X");
  app.add_option("--presence-penalty", o.presence_penalty,
                 "Taken from the logit of recent tokens (default: 0)")
      ->type_name("X");
  app.add_option("--repeat-last-n", o.penalty_window,
                 "How many tokens the penalties look back; 0: all (default: 64)")
      ->type_name("N");
  app.add_option("--seed", o.seed_text, "Seed of the draws, a number or 'random'")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--stop", o.stop, "End the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--system", o.system, "System message")->type_name("TEXT");
  app.add_flag("--no-think", o.no_think, "Do not let the model think first");
}

Status check_range(const char* name, const std::optional<int64_t>& value, int64_t low, int64_t high) {
  if (!value || (*value >= low && *value <= high)) return {};
  return bad_input(fmt::format("{} is {}: wanted {}..{}", name, *value, low, high));
}

Result<uint64_t> parse_size(const char* name, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [p, e] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  int shift = 0;
  if (e == std::errc() && p + 1 == end) {
    constexpr std::string_view kLetters = "KMGT";
    const size_t at = kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*p))));
    if (at != std::string_view::npos) {
      shift = 10 * static_cast<int>(at + 1);
      ++p;
    }
  }
  const double bytes = std::ldexp(value, shift);
  if (e != std::errc() || p != end || !(bytes >= 1) || !(bytes < 0x1p50)) {
    return bad_input(fmt::format("{} is '{}': wanted a size such as 12G, 1.5G or 800M", name, text));
  }
  return static_cast<uint64_t>(bytes);
}

app::BackendChoice EngineOptions::choice() const {
  app::BackendChoice c{backend, threads ? static_cast<int>(*threads) : 0, isa};
  if (!gpu_memory.empty()) {
    const auto bytes = parse_size("--gpu-memory", gpu_memory);
    if (bytes.ok()) c.gpu_memory = *bytes;
  }
  return c;
}

Status check(const EngineOptions& o) {
  ARGON_RETURN_IF_ERROR(check_range("-c", o.context, 1, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("-t", o.threads, 1, kMaxThreads));
  ARGON_RETURN_IF_ERROR(check_range("--pass", o.pass, 1, kMaxPass));
  if (o.kv != "f16" && o.kv != "f32") {
    return bad_input(fmt::format("--kv is '{}': wanted f16 or f32", o.kv));
  }
  if (!o.gpu_memory.empty()) {
    if (const auto bytes = parse_size("--gpu-memory", o.gpu_memory); !bytes.ok()) return bytes.status();
  }
  if (!o.isa.empty()) {
    if (const auto isa = parse_isa(o.isa); !isa.ok()) {
      return Status(isa.status().code(), "--isa: " + isa.status().message());
    }
  }
  return {};
}

Status check(AnswerOptions& o) {
  ARGON_RETURN_IF_ERROR(check_range("-n", o.max_tokens, -1, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("--top-k", o.top_k, 0, INT32_MAX));
  ARGON_RETURN_IF_ERROR(check_range("--repeat-last-n", o.penalty_window, 0, INT32_MAX));
  ARGON_RETURN_IF_ERROR(ops::check(sampling_for(o, {}, true)));
  for (const std::string& s : o.stop) {
    if (s.empty()) return bad_input("--stop is empty: wanted the text to stop at");
  }
  if (o.seed_text == "random") {
    if (getrandom(&o.seed, sizeof o.seed, 0) != sizeof o.seed) {
      return resource_error("cannot draw a random seed: give one with --seed N");
    }
  } else {
    const char* end = o.seed_text.data() + o.seed_text.size();
    const auto [p, e] = std::from_chars(o.seed_text.data(), end, o.seed);
    if (e != std::errc() || p != end) {
      return bad_input(fmt::format("--seed is '{}': wanted 0..{} or 'random'", o.seed_text, UINT64_MAX));
    }
  }
  return {};
}

ops::SampleOptions sampling_for(const AnswerOptions& o, const FileSampling& file, bool bundled) {
  ops::SampleOptions s;
  s.temperature = o.temperature.value_or(file.temperature.value_or(bundled ? 0.0f : 0.7f));
  s.top_k = o.top_k ? static_cast<int32_t>(*o.top_k) : file.top_k.value_or(20);
  s.top_p = o.top_p.value_or(file.top_p.value_or(0.8f));
  s.min_p = o.min_p.value_or(file.min_p.value_or(0.0f));
  s.repeat_penalty = o.repeat_penalty.value_or(file.repeat_penalty.value_or(1.0f));
  s.presence_penalty = o.presence_penalty.value_or(0.0f);
  if (o.penalty_window) s.penalty_window = static_cast<int32_t>(*o.penalty_window);
  s.seed = o.seed;
  return s;
}

}  // namespace argon::cli
