// argon chat: a conversation in the terminal.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/answer.h"
#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/line_editor.h"
#include "app/cli/output_file.h"
#include "chat/chat.h"

namespace argon::cli {
namespace {

constexpr const char* kHelp =
    "/reset        begin a new conversation\n"
    "/save FILE    save the conversation, as FILE.json or FILE.md\n"
    "/help         this list\n"
    "/exit         end (so does Ctrl-D); Ctrl-C stops an answer\n";

struct Options {
  EngineOptions engine;
  AnswerOptions answer;
};

std::string as_json(const std::vector<Message>& messages) {
  nlohmann::ordered_json j = {{"messages", nlohmann::ordered_json::array()}};
  for (const Message& m : messages) {
    nlohmann::ordered_json one = {{"role", m.role}, {"content", m.content}};
    if (!m.thinking.empty()) one["thinking"] = m.thinking;
    j["messages"].push_back(std::move(one));
  }
  return j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_markdown(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& m : messages) {
    if (!text.empty()) text += "\n";
    text += fmt::format("## {}\n\n", m.role);
    if (!m.thinking.empty())
      text += fmt::format("<details><summary>thinking</summary>\n\n{}\n\n</details>\n\n", m.thinking);
    text += m.content + "\n";
  }
  return text;
}

Status save(const std::vector<Message>& messages, const std::string& path) {
  if (path.empty()) return bad_input("/save names no file: wanted /save FILE.json or /save FILE.md");
  std::string text;
  if (path.ends_with(".json")) {
    text = as_json(messages);
  } else if (path.ends_with(".md")) {
    text = as_markdown(messages);
  } else {
    return bad_input(fmt::format("cannot save {}: wanted a name that ends in .json or .md", path));
  }
  ARGON_ASSIGN_OR_RETURN(const auto file, OutputFile::create(path));
  ARGON_RETURN_IF_ERROR(file->write(text.data(), text.size()));
  ARGON_RETURN_IF_ERROR(file->commit());
  say(fmt::format("saved {}\n", path));
  return {};
}

class Chat {
 public:
  Chat(const Options& o, Engine& engine, Session& session, LineEditor& lines)
      : o_(o),
        engine_(engine),
        session_(session),
        lines_(lines),
        sampling_(sampling_for(o.answer, engine.model->sampling(), o.engine.bundled())),
        thinking_(engine.model->can_think() && !o.answer.no_think) {
    reset();
  }

  // Until the end of input. On a terminal mistakes are told and the conversation goes on; elsewhere the first
  // one ends it.
  Status run() {
    if (lines_.is_terminal()) {
      say(fmt::format("{}, context of {} tokens; /help lists the commands\n", file_name(engine_.path),
                      session_.state().capacity()));
    }
    std::string line;
    for (;;) {
      const auto end = lines_.read("> ", line);
      if (end == LineEditor::End::kEof) return {};
      Status s;
      if (end == LineEditor::End::kInterrupted) {
        s = Status(Code::kCancelled, "");
        if (lines_.is_terminal()) say("/exit or Ctrl-D ends\n");
      } else {
        const size_t first = line.find_first_not_of(" \t");
        if (first == std::string::npos) continue;
        if (line.compare(first, std::string::npos, "/exit") == 0) return {};
        s = line[first] == '/' ? command(line.substr(first)) : turn(line);
      }
      if (out_.closed()) return {};
      ARGON_RETURN_IF_ERROR(out_.status());
      if (!s.ok() && !lines_.is_terminal()) return s;
      if (!s.ok() && !s.message().empty()) say_line(s.message());
      clear_interrupt();
    }
  }

 private:
  void reset() {
    messages_.clear();
    if (o_.answer.system) messages_.push_back({"system", *o_.answer.system});
  }

  Status command(const std::string& line) {
    const size_t space = line.find_first_of(" \t");
    const std::string name = line.substr(0, space);
    const size_t begin = line.find_first_not_of(" \t", space);
    std::string argument = begin == std::string::npos ? "" : line.substr(begin);
    argument.erase(argument.find_last_not_of(" \t") + 1);
    if (name == "/save") return save(messages_, argument);
    if (name == "/help") {
      say(kHelp);
    } else if (name == "/reset") {
      reset();
      say("a new conversation\n");
    } else {
      return bad_input(fmt::format("unknown command {}: /help lists them", name));
    }
    return {};
  }

  Status turn(const std::string& text) {
    messages_.push_back({"user", text});
    Status s = answer();
    if (!s.ok() && messages_.back().role == "user") messages_.pop_back();
    return s;
  }

  Status answer() {
    ChatOptions chat;
    chat.thinking = thinking_;
    ARGON_ASSIGN_OR_RETURN(const auto segments, render_chat(messages_, chat));
    ARGON_ASSIGN_OR_RETURN(const auto ids, engine_.model->tokenizer().encode(segments));
    AnswerStyle style;
    style.thinking_open = thinking_;
    ARGON_ASSIGN_OR_RETURN(Answer a,
                           write_answer(session_, ids, generate_options(o_.answer, sampling_), style, out_));
    if (out_.closed()) return {};
    say(stats_line(a.generated, sampling_));
    // What was said before Ctrl-C is part of the conversation.
    messages_.push_back({"assistant", std::move(a.text), std::move(a.thinking)});
    if (a.generated.reason == FinishReason::kCancelled) return Status(Code::kCancelled, "");
    return {};
  }

  const Options& o_;
  Engine& engine_;
  Session& session_;
  LineEditor& lines_;
  ops::SampleOptions sampling_;
  bool thinking_;
  Output out_;
  std::vector<Message> messages_;
};

Status run(Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_RETURN_IF_ERROR(check(o.answer));
  catch_interrupts();
  ARGON_ASSIGN_OR_RETURN(const auto engine, load_engine(o.engine));
  ARGON_ASSIGN_OR_RETURN(const auto session, make_session(*engine, o.engine));
  const auto lines = LineEditor::create();
  return Chat(o, *engine, *session, *lines).run();
}

}  // namespace

void add_chat(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("chat", "Talk with the model in the terminal; /help there lists its commands");
  add_engine_options(*c, o->engine, true);
  add_answer_options(*c, o->answer);
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
