// argon run: one prompt, one answer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/answer.h"
#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/text_input.h"
#include "chat/chat.h"

namespace argon::cli {
namespace {

struct Options {
  EngineOptions engine;
  AnswerOptions answer;
  TextOptions text;
  bool raw = false, json = false;
};

Result<std::vector<int32_t>> prompt_ids(const Options& o, const Tokenizer& tokenizer, const std::string& text,
                                        bool thinking) {
  if (o.raw) return tokenizer.encode(text, ParseSpecial::kYes);
  std::vector<Message> messages;
  if (o.answer.system) messages.push_back({"system", *o.answer.system});
  messages.push_back({"user", text});
  ChatOptions chat;
  chat.thinking = thinking;
  ARGON_ASSIGN_OR_RETURN(const auto segments, render_chat(messages, chat));
  return tokenizer.encode(segments);
}

// The double nearest to how the float is written in short: 0.8, not 0.800000011920929.
double shortest(float x) { return std::stod(fmt::format("{}", x)); }

// The schema is in README.md.
std::string as_json(const Answer& a, const ops::SampleOptions& s, const Engine& engine) {
  const Generated& g = a.generated;
  const auto written = static_cast<int64_t>(g.tokens.size());
  const nlohmann::ordered_json j = {
      {"text", a.text},
      {"thinking", a.thinking},
      {"tokens", g.tokens},
      {"finish_reason", reason_name(g.reason)},
      {"prompt_tokens", g.prompt_tokens},
      {"answer_tokens", written},
      {"seed", s.seed},
      {"sampling",
       {{"temperature", shortest(s.temperature)},
        {"top_k", s.top_k},
        {"top_p", shortest(s.top_p)},
        {"min_p", shortest(s.min_p)},
        {"repeat_penalty", shortest(s.repeat_penalty)},
        {"presence_penalty", shortest(s.presence_penalty)},
        {"repeat_last_n", s.penalty_window}}},
      {"timings",
       {{"load_seconds", engine.load_seconds},
        {"prompt_seconds", g.prompt_seconds},
        {"answer_seconds", g.generate_seconds},
        {"prompt_tokens_per_second", per_second(g.prompt_read, g.prompt_seconds)},
        {"answer_tokens_per_second", per_second(written, g.generate_seconds)}}},
      {"model", file_name(engine.path)},
      {"engine", engine.backend->name()},
  };
  return j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status run(Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_RETURN_IF_ERROR(check(o.answer));
  if (o.raw && o.answer.system) {
    return bad_input("--system does not go with --raw: a plain text has no system message");
  }
  ARGON_ASSIGN_OR_RETURN(const std::string text, read_text(o.text));
  if (text.empty()) return bad_input("the prompt is empty: wanted some text");
  catch_interrupts();
  ARGON_ASSIGN_OR_RETURN(const auto engine, load_engine(o.engine));
  const bool thinking = engine->model->can_think() && !o.answer.no_think && !o.raw;
  ARGON_ASSIGN_OR_RETURN(const auto ids, prompt_ids(o, engine->model->tokenizer(), text, thinking));
  ARGON_ASSIGN_OR_RETURN(const auto session, make_session(*engine, o.engine));

  const ops::SampleOptions sampling = sampling_for(o.answer, engine->model->sampling(), o.engine.bundled());
  AnswerStyle style;
  style.split_thinking = !o.raw;
  style.thinking_open = thinking;
  style.silent = o.json;
  Output out;
  ARGON_ASSIGN_OR_RETURN(const Answer answer,
                         write_answer(*session, ids, generate_options(o.answer, sampling), style, out));
  if (o.json) out.write(as_json(answer, sampling, *engine));
  if (out.closed()) return {};
  ARGON_RETURN_IF_ERROR(out.status());
  say(stats_line(answer.generated, sampling));
  if (answer.generated.reason == FinishReason::kCancelled) return Status(Code::kCancelled, "");
  return {};
}

}  // namespace

void add_run(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("run", "Answer one prompt; the answer goes to standard output");
  add_text_options(*c, o->text, "The prompt");
  add_engine_options(*c, o->engine, true);
  add_answer_options(*c, o->answer);
  c->add_flag("--raw", o->raw, "Continue the text as it stands, without chat format; control tokens count");
  c->add_flag("--json", o->json, "Print one JSON object at the end instead of the text");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
