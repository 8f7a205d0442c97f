// argon synth: a model of the real architecture with random weights, for measurements and tests.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "app/cli/terminal.h"
#include "model/synth.h"

namespace argon::cli {
namespace {

struct Size {
  const char* name;
  int64_t ModelConfig::*member;
};
// The letters of MODEL.md that may be set.
constexpr Size kSizes[] = {
    {"H", &ModelConfig::H},
    {"C", &ModelConfig::C},
    {"R", &ModelConfig::R},
    {"V", &ModelConfig::V},
    {"E", &ModelConfig::E},
    {"K", &ModelConfig::K},
    {"F", &ModelConfig::F},
    {"Fs", &ModelConfig::Fs},
    {"hk", &ModelConfig::hk},
    {"hv", &ModelConfig::hv},
    {"D", &ModelConfig::D},
    {"nq", &ModelConfig::nq},
    {"nkv", &ModelConfig::nkv},
    {"dh", &ModelConfig::dh},
    {"rot", &ModelConfig::rot},
    {"ni", &ModelConfig::ni},
    {"di", &ModelConfig::di},
    {"B", &ModelConfig::B},
    {"r", &ModelConfig::r},
    {"G", &ModelConfig::G},
    {"W", &ModelConfig::W},
    {"n", &ModelConfig::ngram},
    {"interval", &ModelConfig::interval},
    {"ple_layer", &ModelConfig::ple_layer},
    {"draft_blocks", &ModelConfig::draft_blocks},
    {"context", &ModelConfig::context_length},
};

struct Options {
  std::string out;
  int64_t layers = 4;
  std::vector<std::string> sizes;
  std::string gate_up = "Q4_K", down = "Q4_0", dense = "Q8_0", table = "Q8_0";
  SynthOptions synth;
};

Status set_type(const char* option, const std::string& name, WeightType& type) {
  const auto info = weight_type_by_name(name);
  if (!info) {
    std::string known;
    for (const WeightTypeInfo& t : kWeightTypes) {
      if (can_fill(t.type)) known += (known.empty() ? "" : " ") + std::string(t.name);
    }
    return bad_input(fmt::format("{} is '{}': wanted one of {}", option, name, known));
  }
  type = info->type;
  return {};
}

Status set_size(const std::string& text, ModelConfig& config) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  for (const Size& s : kSizes) {
    if (name != s.name || equals == std::string::npos) continue;
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [p, e] = std::from_chars(text.data() + equals + 1, end, value);
    if (e != std::errc() || p != end) break;
    const SizeRange range = size_range(s.member);
    ARGON_RETURN_IF_ERROR(check_range(fmt::format("--set {}", name).c_str(), value, range.least, range.most));
    config.*s.member = value;
    // The sections split rot/2 for images; of other sizes there are none.
    if (name == "rot") config.rope_sections.clear();
    return {};
  }
  std::string known;
  for (const Size& s : kSizes) known += (known.empty() ? "" : " ") + std::string(s.name);
  return bad_input(fmt::format("--set is '{}': wanted NAME=N with a NAME of {}", text, known));
}

Status run(Options& o) {
  ARGON_RETURN_IF_ERROR(check_range("--layers", o.layers, 1, 1024));
  o.synth.config = synth_real_sizes(o.layers);
  for (const std::string& s : o.sizes) ARGON_RETURN_IF_ERROR(set_size(s, o.synth.config));
  ARGON_RETURN_IF_ERROR(set_type("--gate-up", o.gate_up, o.synth.gate_up));
  ARGON_RETURN_IF_ERROR(set_type("--down", o.down, o.synth.down));
  ARGON_RETURN_IF_ERROR(set_type("--dense", o.dense, o.synth.dense));
  ARGON_RETURN_IF_ERROR(set_type("--table", o.table, o.synth.table));
  uint64_t bytes = 0;
  {
    // Ctrl-C simply ends the process: until it is whole the file has no name.
    ProgressBar bar;
    ARGON_RETURN_IF_ERROR(write_synthetic(o.out, o.synth, [&](uint64_t done, uint64_t total) {
      bytes = total;
      bar.show(static_cast<double>(done) / static_cast<double>(total),
               fmt::format("{} of {} MB", done / 1000000, total / 1000000));
    }));
  }
  say(fmt::format("wrote {}, {:.1f} MB of weights\n", o.out, static_cast<double>(bytes) / 1e6));
  return {};
}

}  // namespace

void add_synth(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("synth", "Write a model of the real sizes with random weights, for measurements");
  c->add_option("OUT", o->out, "The GGUF file to write")->type_name("")->required();
  c->add_option("--layers", o->layers, "Layers")->type_name("N")->capture_default_str();
  c->add_option(
       "--set", o->sizes,
       "Another size, as E=64; the names are the model's letters (H E K F V ...); may be given several times")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  c->add_option("--head-rows", o->synth.head_rows,
                "Rows of the first n-gram head; the others take the next primes")
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--gate-up", o->gate_up, "Type of the experts' gate and up weights")
      ->type_name("TYPE")
      ->capture_default_str();
  c->add_option("--down", o->down, "Type of the experts' down weights")
      ->type_name("TYPE")
      ->capture_default_str();
  c->add_option("--dense", o->dense, "Type of the other matrices")->type_name("TYPE")->capture_default_str();
  c->add_option("--table", o->table, "Type of the n-gram table")->type_name("TYPE")->capture_default_str();
  c->add_flag("--tied", o->synth.tied_output, "Let the output share the embedding's weights");
  c->add_flag("--fused", o->synth.fused_gate_up, "Store gate and up weights as one tensor");
  c->add_flag("--tokenizer", o->synth.tokenizer,
              "With a tokenizer that reads text, of as many entries as V (248320)");
  c->add_option("--seed", o->synth.seed, "Seed of the weights")->type_name("N")->capture_default_str();
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
