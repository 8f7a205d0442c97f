// argon bench: how fast prompts are read and answers written.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/answer.h"
#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/terminal.h"
#include "base/contract.h"
#include "model/forward.h"
#include "model/state.h"

namespace argon::cli {
namespace {

constexpr uint64_t kTokenSeed = 1;
constexpr int64_t kMaxRepeats = 1000;

struct Options {
  EngineOptions engine;
  std::optional<int64_t> prompt = 512, steps = 32, repeats = 3;
  bool json = false;
};

// Tokens per second of each repetition, sorted.
struct Row {
  const char* name;
  int64_t tokens;
  std::vector<double> speeds = {};

  double median() const {
    const size_t n = speeds.size();
    return n % 2 == 1 ? speeds[n / 2] : (speeds[n / 2 - 1] + speeds[n / 2]) / 2;
  }
};

std::vector<int32_t> random_tokens(int64_t n, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(ops::philox64(kTokenSeed, i, 0) % static_cast<uint64_t>(vocabulary));
  }
  return ids;
}

class Bench {
 public:
  Bench(Forward& forward, SequenceState& state, int64_t vocabulary) : forward_(forward), state_(state) {
    logits_.resize(static_cast<size_t>(vocabulary));
  }

  // The seconds for reading the prompt, then for the rest token by token.
  Status measure(std::span<const int32_t> prompt, std::span<const int32_t> steps, double seconds[2]) {
    state_.reset();
    auto start = std::chrono::steady_clock::now();
    const auto lap = [&] {
      const auto now = std::chrono::steady_clock::now();
      return std::chrono::duration<double>(now - std::exchange(start, now)).count();
    };
    if (!prompt.empty()) ARGON_RETURN_IF_ERROR(read(prompt));
    seconds[0] = lap();
    for (size_t i = 0; i < steps.size(); ++i) ARGON_RETURN_IF_ERROR(read(steps.subspan(i, 1)));
    seconds[1] = lap();
    return {};
  }

 private:
  Status read(std::span<const int32_t> tokens) {
    ReadOptions r;
    r.out = logits_.data();
    r.progress = [](int64_t, int64_t) { return !interrupted(); };
    return forward_.read(state_, tokens, r);
  }

  Forward& forward_;
  SequenceState& state_;
  std::vector<float> logits_;
};

std::string as_table(const std::vector<Row>& rows) {
  std::string text =
      fmt::format("{:<8}{:>8}{:>14}{:>10}{:>10}\n", "", "tokens", "median tok/s", "min", "max");
  for (const Row& r : rows) {
    text += fmt::format("{:<8}{:>8}{:>14.1f}{:>10.1f}{:>10.1f}\n", r.name, r.tokens, r.median(),
                        r.speeds.front(), r.speeds.back());
  }
  return text;
}

Status run(const Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_RETURN_IF_ERROR(check_range("-p", o.prompt, 0, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("-n", o.steps, 0, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("-r", o.repeats, 1, kMaxRepeats));
  if (*o.prompt + *o.steps == 0) return bad_input("-p and -n are both 0: there is nothing to measure");
  catch_interrupts();
  ARGON_ASSIGN_OR_RETURN(const auto engine, load_engine(o.engine));
  const ModelConfig& c = engine->model->config();
  const int64_t total = *o.prompt + *o.steps;
  if (total > c.context_length) {
    return bad_input(
        fmt::format("-p and -n need {} tokens, the context holds {}: lower them", total, c.context_length));
  }
  const int64_t pass = o.engine.pass.value_or(Session::default_pass(c));
  ARGON_ASSIGN_OR_RETURN(const auto forward,
                         Forward::create(c, engine->model->weights(), *engine->backend, pass, total));
  ARGON_ASSIGN_OR_RETURN(const auto state,
                         SequenceState::create(c, *engine->backend, total, o.engine.kv_type()));
  const std::vector<int32_t> ids = random_tokens(total, c.V);
  const auto prompt = std::span(ids).first(static_cast<size_t>(*o.prompt));
  const auto steps = std::span(ids).subspan(static_cast<size_t>(*o.prompt));

  Bench bench(*forward, *state, c.V);
  Row rows[2] = {{"prompt", *o.prompt}, {"step", *o.steps}};
  {
    ProgressBar bar;
    for (int64_t i = 0; i <= *o.repeats; ++i) {
      bar.show(static_cast<double>(i) / static_cast<double>(*o.repeats + 1),
               i == 0 ? "warming up" : fmt::format("repetition {} of {}", i, *o.repeats));
      double seconds[2];
      // The first turn, whose figures do not count, brings the weights into memory.
      ARGON_RETURN_IF_ERROR(
          bench.measure(prompt, i == 0 ? steps.first(std::min<size_t>(2, steps.size())) : steps, seconds));
      if (interrupted()) return Status(Code::kCancelled, "");
      for (int k = 0; i > 0 && k < 2; ++k) rows[k].speeds.push_back(per_second(rows[k].tokens, seconds[k]));
    }
  }
  std::vector<Row> measured;
  for (Row& r : rows) {
    std::sort(r.speeds.begin(), r.speeds.end());
    if (r.tokens > 0) measured.push_back(std::move(r));
  }
  Output out;
  if (o.json) {
    nlohmann::ordered_json j = {{"model", file_name(engine->path)},
                                {"engine", engine->backend->name()},
                                {"kv", o.engine.kv},
                                {"pass", pass},
                                {"repetitions", *o.repeats},
                                {"contract", kContractVersion}};
    for (const Row& r : measured) {
      j[r.name] = {
          {"tokens", r.tokens},
          {"tokens_per_second",
           {{"median", r.median()}, {"min", r.speeds.front()}, {"max", r.speeds.back()}, {"all", r.speeds}}}};
    }
    out.write(j.dump(2) + "\n");
  } else {
    out.write(fmt::format("{}: {}, cache {}, pass {}, {} repetitions\n", file_name(engine->path),
                          engine->backend->name(), o.engine.kv, pass, *o.repeats));
    out.write(as_table(measured));
  }
  return out.status();
}

}  // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("bench", "Measure the speed of reading a prompt and of writing");
  add_engine_options(*c, o->engine, false);
  c->add_option("-p,--prompt-tokens", o->prompt, "Tokens of the prompt; 0: leave it out (default: 512)")
      ->type_name("N");
  c->add_option("-n,--steps", o->steps, "Tokens read one by one after it; 0: leave them out (default: 32)")
      ->type_name("N");
  c->add_option("-r,--repeat", o->repeats, "Repetitions (default: 3)")->type_name("N");
  c->add_flag("--json", o->json, "Print JSON instead of a table");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
