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
#include "base/thread_pool.h"
#include "cpu/ceilings.h"
#include "model/forward.h"
#include "model/state.h"
#include "model/work.h"

namespace argon::cli {
namespace {

constexpr uint64_t kTokenSeed = 1;
constexpr int64_t kMaxRepeats = 1000;

struct Options {
  EngineOptions engine;
  std::optional<int64_t> prompt = 512, steps = 32, repeats = 3;
  ops::SampleOptions sampling;
  bool json = false;
};

// Tokens per second of each repetition, sorted, and the work of a token.
struct Row {
  const char* name;
  int64_t tokens;
  Work per_token = {};
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
  Bench(Forward& forward, SequenceState& state, const ops::SampleOptions& sampling)
      : forward_(forward), state_(state) {
    next_.options = sampling;
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
    r.next = &next_;
    r.progress = [](int64_t, int64_t) { return !interrupted(); };
    return forward_.read(state_, tokens, r);
  }

  Forward& forward_;
  SequenceState& state_;
  NextToken next_;  // chosen as for an answer, and not used
};

// The work of one token when `tokens` are read in passes of at most `pass`.
Work work_per_token(const Model& model, int64_t tokens, int64_t pass) {
  Work sum;
  const auto add = [&](const Work& w, int64_t times) {
    sum.bytes += w.bytes * static_cast<double>(times);
    sum.multiply_adds += w.multiply_adds * static_cast<double>(times);
  };
  if (tokens >= pass) add(pass_work(model.file(), model.config(), pass), tokens / pass);
  if (tokens % pass != 0) add(pass_work(model.file(), model.config(), tokens % pass), 1);
  sum.bytes /= static_cast<double>(tokens);
  sum.multiply_adds /= static_cast<double>(tokens);
  return sum;
}

// What the machine can do at most, when the CPU computes.
Result<std::optional<Ceilings>> ceilings_of(const EngineOptions& o, const ops::Backend& backend) {
  if (!backend.name().starts_with("cpu")) return std::optional<Ceilings>();
  ARGON_ASSIGN_OR_RETURN(const app::CpuChoice cpu, app::cpu_choice(o.choice()));
  ThreadPool pool(cpu.threads);
  ARGON_ASSIGN_OR_RETURN(const Ceilings c, measure_ceilings(pool, cpu.isa));
  return std::optional<Ceilings>(c);
}

std::string as_table(const std::vector<Row>& rows, const std::optional<Ceilings>& ceilings) {
  std::string text;
  if (ceilings) {
    text += fmt::format("this machine at most: memory {:.1f} GB/s, int8 {:.0f} G multiply-adds/s\n",
                        ceilings->read_bytes_per_second * 1e-9, ceilings->int8_per_second * 1e-9);
  }
  text += fmt::format("{:<8}{:>8}{:>14}{:>10}{:>10}{:>14}{:>14}{:>9}{:>7}\n", "", "tokens", "median tok/s",
                      "min", "max", "MB/token", "Mmadd/token", "memory", "int8");
  for (const Row& r : rows) {
    text += fmt::format("{:<8}{:>8}{:>14.1f}{:>10.1f}{:>10.1f}{:>14.2f}{:>14.1f}", r.name, r.tokens,
                        r.median(), r.speeds.front(), r.speeds.back(), r.per_token.bytes * 1e-6,
                        r.per_token.multiply_adds * 1e-6);
    if (ceilings) {
      text += fmt::format("{:>8.1f}%{:>6.1f}%",
                          100 * r.per_token.bytes * r.median() / ceilings->read_bytes_per_second,
                          100 * r.per_token.multiply_adds * r.median() / ceilings->int8_per_second);
    }
    text += '\n';
  }
  return text;
}

Status run(const Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_RETURN_IF_ERROR(check_range("-p", o.prompt, 0, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("-n", o.steps, 0, kMaxContext));
  ARGON_RETURN_IF_ERROR(check_range("-r", o.repeats, 1, kMaxRepeats));
  ARGON_RETURN_IF_ERROR(ops::check(o.sampling));
  if (*o.prompt + *o.steps == 0) return bad_input("-p and -n are both 0: there is nothing to measure");
  catch_interrupts();
  ARGON_ASSIGN_OR_RETURN(const auto engine, load_engine(o.engine));
  const ModelConfig& c = engine->model->config();
  const int64_t total = *o.prompt + *o.steps;
  if (total > c.context_length) {
    return bad_input(
        fmt::format("-p and -n need {} tokens, the context holds {}: lower them", total, c.context_length));
  }
  const int64_t pass = o.engine.pass.value_or(std::min(Session::default_pass(c, *engine->backend), total));
  ARGON_ASSIGN_OR_RETURN(const auto forward,
                         Forward::create(c, engine->model->weights(), *engine->backend, pass, total,
                                         SequenceState::bytes(c, total, o.engine.kv_type())));
  ARGON_ASSIGN_OR_RETURN(const auto state,
                         SequenceState::create(c, *engine->backend, total, o.engine.kv_type()));
  const std::vector<int32_t> ids = random_tokens(total, c.V);
  const auto prompt = std::span(ids).first(static_cast<size_t>(*o.prompt));
  const auto steps = std::span(ids).subspan(static_cast<size_t>(*o.prompt));

  Bench bench(*forward, *state, o.sampling);
  Row rows[2] = {{"prompt", *o.prompt}, {"step", *o.steps}};
  if (*o.prompt > 0) rows[0].per_token = work_per_token(*engine->model, *o.prompt, pass);
  rows[1].per_token = work_per_token(*engine->model, 1, 1);
  ARGON_ASSIGN_OR_RETURN(const auto ceilings, ceilings_of(o.engine, *engine->backend));
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
    if (const std::string line = app::placement_line(*engine->backend); !line.empty()) j["placement"] = line;
    if (ceilings) {
      j["ceilings"] = {{"read_bytes_per_second", ceilings->read_bytes_per_second},
                       {"int8_multiply_adds_per_second", ceilings->int8_per_second}};
    }
    for (const Row& r : measured) {
      j[r.name] = {
          {"tokens", r.tokens},
          {"bytes_per_token", r.per_token.bytes},
          {"multiply_adds_per_token", r.per_token.multiply_adds},
          {"tokens_per_second",
           {{"median", r.median()}, {"min", r.speeds.front()}, {"max", r.speeds.back()}, {"all", r.speeds}}}};
    }
    out.write(j.dump(2) + "\n");
  } else {
    out.write(fmt::format("{}: {}, cache {}, pass {}, {} repetitions\n", file_name(engine->path),
                          engine->backend->name(), o.engine.kv, pass, *o.repeats));
    out.write(as_table(measured, ceilings));
    if (const std::string line = app::placement_line(*engine->backend); !line.empty()) out.write(line + "\n");
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
  c->add_option("--temp", o->sampling.temperature,
                "Temperature at which each token after is chosen (default: 0, the likeliest)")
      ->type_name("T");
  c->add_option("-r,--repeat", o->repeats, "Repetitions (default: 3)")->type_name("N");
  c->add_flag("--json", o->json, "Print JSON instead of a table");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
