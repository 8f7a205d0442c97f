// Where tests find their data: the repository's own, what the build unpacked, and the optional large
// fixtures.
#pragma once

#include <cstdlib>
#include <string>

namespace argon::testing {

// A file of the repository; tests run in its root (CTest sets the working directory).
inline std::string source_path(const std::string& relative) {
  return std::string(ARGON_SOURCE_DIR) + "/" + relative;
}
// A fixture that CMake unpacked, by file name: tiny-random-F32.gguf, tiny-random-Q8_0.gguf,
// qwen3-tokenizer.json, argon-tiny-tokenizer.json.
inline std::string fixture_path(const std::string& name) {
  return std::string(ARGON_BINARY_DIR) + "/fixtures/" + name;
}
inline std::string tiny_model_path() { return source_path("models/argon-tiny/argon-tiny-Q8_0.gguf"); }
// Fixtures too large for the repository: $ARGON_FIXTURES, else ../shared/fixtures. May not be there.
inline std::string large_fixture_path(const std::string& relative) {
  const char* dir = std::getenv("ARGON_FIXTURES");
  return (dir != nullptr ? std::string(dir) : source_path("../shared/fixtures")) + "/" + relative;
}

}  // namespace argon::testing
