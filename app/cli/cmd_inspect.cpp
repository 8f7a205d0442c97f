// argon inspect: what a GGUF file holds, and whether this engine runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/terminal.h"
#include "cuda/figures.h"
#include "formats/format.h"
#include "model/inspect.h"
#include "model/memory.h"
#include "runtime/session.h"
#include "tiers/plan.h"

namespace argon::cli {
namespace {

struct Options {
  std::string file;
  EngineOptions engine;  // context, kv, pass and gpu_memory alone
  bool tensors = false, json = false, check = false;
};

// By the code and the figures that a run with these options divides by.
Result<std::optional<GpuPlacement>> place_on_gpu(const GgufFile& file, const ModelConfig& c,
                                                 const EngineOptions& o) {
  ARGON_ASSIGN_OR_RETURN(const uint64_t budget, parse_size("--gpu-memory", o.gpu_memory));
  ARGON_ASSIGN_OR_RETURN(const Weights weights, Weights::bind(file, c, [](WeightType) { return true; }));
  const int64_t context = o.context.value_or(c.context_length);
  const ModelMemory memory = model_memory(
      c, weights, o.pass.value_or(std::min(Session::default_pass(c, cuda::kBestPass, budget), context)),
      context, SequenceState::bytes(c, context, o.kv_type()));
  ops::MemoryNeeds needs = memory.needs();
  needs.own = cuda::kContextBytes + cuda::kScratchBytes;
  ARGON_ASSIGN_OR_RETURN(const tiers::Plan plan, tiers::divide(needs, budget));
  GpuPlacement p;
  p.budget = budget;
  p.gpu_bytes = plan.device_bytes;
  for (size_t k = 0; k < memory.weights.size(); ++k) {
    if (memory.weights[k] > 0)
      p.gpu.push_back({weight_kind_name(static_cast<WeightKind>(k)), memory.weights[k]});
  }
  p.gpu.push_back({"experts", plan.resident_bytes});
  if (plan.passing_bytes > 0) p.gpu.push_back({"experts passing through", plan.passing_bytes});
  if (plan.table) p.gpu.push_back({"n-gram table", memory.table});
  p.gpu.push_back({"sequence", memory.states});
  p.gpu.push_back({"passes", memory.passes + memory.other});
  p.gpu.push_back({"driver and kernels", needs.own});
  p.experts = plan.experts;
  p.gpu_experts_of_layer = plan.resident;
  for (const int64_t n : plan.resident) p.gpu_experts += n;
  p.host_experts_bytes = needs.experts() - plan.resident_bytes;
  if (!plan.table) p.file_table_bytes = memory.table;
  return std::optional<GpuPlacement>(std::move(p));
}

Status run(const Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_ASSIGN_OR_RETURN(const std::string path, model_path(o.file));
  ProgressBar bar;
  ARGON_ASSIGN_OR_RETURN(const auto file, GgufFile::open(path, [&](int done, int total) {
                           bar.show(done / static_cast<double>(total),
                                    fmt::format("part {} of {}", done, total));
                         }));
  bar.clear();
  InspectOptions options;
  options.tokens = static_cast<uint64_t>(o.engine.context.value_or(0));
  options.kv = o.engine.kv_type();
  options.tensors = o.tensors;
  options.can_compute = [](WeightType type) { return find_format(type) != nullptr; };
  InspectReport report = inspect(*file, options);
  if (o.check) {
    catch_interrupts();
    ThreadPool pool(ThreadPool::available_processors());
    auto checked = check_weights(*file, pool, [&](uint64_t done, uint64_t total) {
      bar.show(static_cast<double>(done) / static_cast<double>(total),
               fmt::format("{} of {} MB", done / 1000000, total / 1000000));
      return !interrupted();
    });
    bar.clear();
    if (!checked.ok()) return checked.status();
    report.check = std::move(checked).value();
  }
  if (!o.engine.gpu_memory.empty() && report.config && report.runnable()) {
    ARGON_ASSIGN_OR_RETURN(report.placement, place_on_gpu(*file, *report.config, o.engine));
  }
  Output out;
  std::string text = o.json ? inspect_json(report) : inspect_text(report);
  if (!text.ends_with('\n')) text += '\n';
  out.write(text);
  if (report.check && !report.check->bad.empty()) {
    return bad_input(fmt::format("{}: {} of {} tensors hold numbers that are NaN or infinite", file->name(),
                                 report.check->bad.size(), file->tensors().size()));
  }
  return out.status();
}

}  // namespace

void add_inspect(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("inspect", "Show what a model file holds and whether this engine runs it");
  c->add_option("FILE,-m,--model", o->file, "GGUF file (default: the bundled argon-tiny)")->type_name("FILE");
  c->add_option("-c,--context", o->engine.context, "Tokens of the context whose memory is shown")
      ->type_name("N");
  c->add_option("--kv", o->engine.kv, "Type of the attention cache: f16 or f32")
      ->type_name("TYPE")
      ->capture_default_str();
  c->add_flag("--check", o->check, "Read every weight and look for NaN and infinite numbers");
  add_gpu_memory_option(*c, o->engine);
  c->add_option("--pass", o->engine.pass,
                "Tokens read at a time, as of the run that --gpu-memory is asked for")
      ->type_name("N");
  c->add_flag("--tensors", o->tensors, "List every tensor");
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
