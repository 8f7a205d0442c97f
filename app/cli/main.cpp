// The `argon` command: reads the command line and runs the command that it names.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "app/cli/commands.h"
#include "app/cli/terminal.h"
#include "base/contract.h"
#include "cpu/cpu_backend.h"

namespace argon::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 failed while running; 2 bad input (file, option, prompt); 130 ended by Ctrl-C.\n"
    "The answer goes to standard output, everything else to standard error.\n"
    "'argon COMMAND --help' lists a command's options.";

int exit_code(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kBadInput:
    case Code::kUnsupported:
      return 2;
    case Code::kCancelled:
      return 130;
    case Code::kResource:
    case Code::kNumeric:
    case Code::kInternal:
      return 1;
  }
  return 1;
}

int finish(const Status& s) {
  if (!s.ok() && !s.message().empty()) say_line(s.message());
  return exit_code(s.code());
}

Status usage_error(const CLI::App& app, const CLI::ParseError& e) {
  const auto used = app.get_subcommands();
  const std::string command = used.empty() ? "argon" : "argon " + used.front()->get_name();
  std::string text = e.what();
  // "Could not convert: --temp = x"
  constexpr std::string_view kConvert = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (text.starts_with(kConvert) && equals != std::string::npos) {
    text = fmt::format("{} is '{}': wanted a number", text.substr(kConvert.size(), equals - kConvert.size()),
                       text.substr(equals + 3));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  return bad_input(fmt::format("{} (see {} --help)", text, command));
}

// An option that is given holds something, unless it is text: -m "" comes from a variable that is not set.
void refuse_empty(CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.empty() || type == "TEXT") return;
  option.check(
      [](const std::string& value) { return std::string(value.empty() ? "is empty: wanted a value" : ""); });
}

int main_with_errors(int argc, char** argv) {
  CLI::App app("Argon runs qwen4exp language models exactly, to the last bit.", "argon");
  app.footer(kFooter);
  app.set_version_flag("--version", fmt::format("argon {} (numeric contract {}, instruction set {})",
                                                ARGON_VERSION, kContractVersion, isa_name(detect_isa())));
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(30);
  Chosen chosen;
  add_run(app, chosen);
  add_chat(app, chosen);
  add_inspect(app, chosen);
  add_tokenize(app, chosen);
  add_logits(app, chosen);
  add_bench(app, chosen);
  add_synth(app, chosen);
  for (CLI::App* c : app.get_subcommands({})) {
    c->footer(kFooter);
    for (CLI::Option* o : c->get_options()) refuse_empty(*o);
  }

  if (argc < 2) {
    say(app.help());
    return exit_code(Code::kBadInput);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    Output out;
    const bool version = app.get_version_ptr()->count() > 0;
    out.write(version ? std::string(e.what()) + "\n" : app.help());
    return finish(out.status());
  } catch (const CLI::ParseError& e) {
    return finish(usage_error(app, e));
  }
  if (!chosen) return finish(bad_input("no command is named (see argon --help)"));
  return finish(chosen());
}

}  // namespace
}  // namespace argon::cli

namespace {

// Descriptors 0 to 2 that were handed over closed would be given to the model file.
void keep_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    // The wrong way round, so that reading input and writing output fail as on a closed descriptor.
    if (fcntl(fd, F_GETFD) == -1) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using argon::Code;
  using argon::Status;
  keep_standard_descriptors();
  // A closed pipe and a file at its size limit are told by write().
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  try {
    return argon::cli::main_with_errors(argc, argv);
  } catch (const std::bad_alloc&) {
    return argon::cli::finish(argon::resource_error("out of memory: a smaller context (-c) needs less"));
  } catch (const std::exception& e) {
    return argon::cli::finish(argon::internal_error(e.what()));
  }
}
