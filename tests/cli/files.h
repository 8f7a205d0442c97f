// Files that the command line's tests need: a folder of their own, and models with something changed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/weight_type.h"
#include "tests/cli/process.h"

namespace argon::testing {

// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const;
  // The names in it, sorted.
  std::vector<std::string> names() const;

 private:
  std::string path_;
};

std::string read_bytes(const std::string& path);

// What to change while copying a model.
struct ModelChanges {
  std::string source;         // of this model; empty: the bundled one
  std::string architecture;   // general.architecture, when not empty
  std::string chat_template;  // tokenizer.chat_template, when not empty
  std::string retyped;        // this tensor gets `type` and zeros as data
  WeightType type = WeightType::kTQ1_0;
  int split_parts = 0;     // write the first of so many parts, which are not there
  float temperature = -1;  // general.sampling.temp, when not negative
};
// The model with these changes at `path`.
void write_changed_model(const std::string& path, const ModelChanges& changes);

// Runs argon synth for a very small model with a tokenizer of 20000 entries: it writes on and on, as two
// tokens of these end an answer.
Ran synth(const std::string& path, const Args& more);

}  // namespace argon::testing
