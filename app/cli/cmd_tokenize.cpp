// argon tokenize: text to token ids, and back.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/terminal.h"
#include "app/cli/text_input.h"
#include "gguf/gguf.h"

namespace argon::cli {
namespace {

struct Options {
  std::string model;
  TextOptions text;
  bool decode = false, json = false;
};

std::string as_json(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  nlohmann::ordered_json j = {{"ids", ids}, {"pieces", nlohmann::ordered_json::array()}};
  for (int32_t id : ids) {
    std::string bytes;
    tokenizer.append_bytes(id, bytes);
    j["pieces"].push_back(bytes);
  }
  // A token may hold a part of a character: bytes that are no UTF-8 show as U+FFFD.
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status run(const Options& o) {
  ARGON_ASSIGN_OR_RETURN(const std::string text, read_text(o.text));
  ARGON_ASSIGN_OR_RETURN(const std::string path, model_path(o.model));
  ARGON_ASSIGN_OR_RETURN(const auto file, GgufFile::open(path));
  ARGON_ASSIGN_OR_RETURN(const auto tokenizer, Model::load_tokenizer(*file));
  std::vector<int32_t> ids;
  if (o.decode) {
    ARGON_ASSIGN_OR_RETURN(ids, parse_ids(text, static_cast<int64_t>(tokenizer->size())));
  } else {
    ARGON_ASSIGN_OR_RETURN(ids, tokenizer->encode(text, ParseSpecial::kYes));
  }
  Output out;
  if (o.json) {
    out.write(as_json(*tokenizer, ids));
  } else if (o.decode) {
    ARGON_ASSIGN_OR_RETURN(const std::string bytes, tokenizer->decode(ids));
    out.write(bytes);
    if (isatty(STDOUT_FILENO) == 1 && !out.ends_in_newline()) out.write("\n");
  } else {
    out.write(fmt::format("{}\n", fmt::join(ids, " ")));
  }
  return out.status();
}

}  // namespace

void add_tokenize(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("tokenize", "Show the token ids of a text; control tokens count");
  add_text_options(*c, o->text, "The text, or with --decode the ids");
  add_model_option(*c, o->model);
  c->add_flag("--decode", o->decode, "Turn ids (separated by spaces) into the bytes of their text");
  c->add_flag("--json", o->json, "Print {\"ids\": [...], \"pieces\": [...]}");
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
