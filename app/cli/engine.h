// A model made ready by the options, with everything the user is told on the way.
#pragma once

#include <memory>
#include <string>

#include "app/cli/options.h"
#include "model/model.h"
#include "ops/backend.h"
#include "runtime/session.h"

namespace argon::cli {

struct Engine {
  std::string path;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<Model> model;
  double load_seconds = 0;
};

// The model file to use. kBadInput when none is named and the bundled one is not where it should be:
// BIN/../share/argon/models, or models/ in a folder above BIN.
Result<std::string> model_path(const std::string& named);

// Loads with a progress bar; the model's warnings go to standard error.
Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& o);

// The session that the options ask for, with a warning for a context beyond what the model was made for.
Result<std::unique_ptr<Session>> make_session(Engine& engine, const EngineOptions& o);

// What may be shown of a path: its last part.
std::string file_name(const std::string& path);

}  // namespace argon::cli
