// The commands: each adds itself, and puts what is to be done into `chosen` when the command line names it.
#pragma once

#include <functional>

#include "base/status.h"

namespace CLI {
class App;
}

namespace argon::cli {

using Chosen = std::function<Status()>;

void add_run(CLI::App& app, Chosen& chosen);
void add_chat(CLI::App& app, Chosen& chosen);
void add_inspect(CLI::App& app, Chosen& chosen);
void add_tokenize(CLI::App& app, Chosen& chosen);
void add_logits(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);
void add_synth(CLI::App& app, Chosen& chosen);

}  // namespace argon::cli
