#include "app/cli/engine.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "app/cli/terminal.h"

namespace argon::cli {
namespace fs = std::filesystem;

Result<std::string> model_path(const std::string& named) {
  if (!named.empty()) return named;
  constexpr const char* kFile = "argon-tiny/argon-tiny-Q8_0.gguf";
  std::error_code e;
  const fs::path bin = fs::read_symlink("/proc/self/exe", e).parent_path();
  const fs::path installed = bin.parent_path() / "share/argon/models" / kFile;
  if (fs::exists(installed, e)) return fs::canonical(installed, e).string();
  for (fs::path p = bin; p.has_relative_path(); p = p.parent_path()) {
    if (fs::exists(p / "models" / kFile, e)) return (p / "models" / kFile).string();
  }
  return bad_input(
      fmt::format("the bundled model is not at {}: name a model with -m FILE", installed.string()));
}

Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& o) {
  ARGON_RETURN_IF_ERROR(check(o));
  ARGON_ASSIGN_OR_RETURN(const std::string path, model_path(o.model));
  auto engine = std::make_unique<Engine>();
  engine->path = path;
  ARGON_ASSIGN_OR_RETURN(engine->backend, app::make_backend(o.choice()));
  const auto start = std::chrono::steady_clock::now();
  {
    ProgressBar bar;
    ARGON_ASSIGN_OR_RETURN(engine->model,
                           Model::load(path, *engine->backend, [&](double fraction, const char* what) {
                             bar.show(fraction, fmt::format("loading {}: {}", file_name(path), what));
                           }));
  }
  engine->load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::string& w : engine->model->warnings()) say_line("warning: " + w);
  if (interrupted()) return Status(Code::kCancelled, "interrupted");
  return engine;
}

Result<std::unique_ptr<Session>> make_session(Engine& engine, const EngineOptions& o) {
  const int64_t made_for = engine.model->config().context_length;
  if (o.context && *o.context > made_for) {
    say_line(fmt::format("warning: -c {} is more than the {} tokens that the model was made for", *o.context,
                         made_for));
  }
  SessionOptions s;
  s.context = o.context.value_or(0);
  s.max_pass = o.pass.value_or(0);
  s.kv_type = o.kv_type();
  return Session::create(*engine.model, *engine.backend, s);
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

}  // namespace argon::cli
