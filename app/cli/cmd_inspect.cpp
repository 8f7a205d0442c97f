// argon inspect: what a GGUF file holds, and whether this engine runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/terminal.h"
#include "formats/format.h"
#include "model/inspect.h"

namespace argon::cli {
namespace {

struct Options {
  std::string file;
  EngineOptions engine;  // context and kv alone
  bool tensors = false, json = false, check = false;
};

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
  c->add_flag("--tensors", o->tensors, "List every tensor");
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
