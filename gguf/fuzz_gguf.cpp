// Fuzzes what a model file meets when it is opened: the GGUF reader, the configuration and the binding of
// tensors. Whatever the bytes, the result is a value or one line of text.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "gguf/gguf.h"
#include "model/config.h"
#include "model/weights.h"

namespace {

void check(const argon::Status& status) {
  const bool expected = status.code() == argon::Code::kBadInput || status.code() == argon::Code::kUnsupported;
  const bool one_line = status.message().find('\n') == std::string::npos && !status.message().empty();
  if (!expected || !one_line) std::abort();
}

// Reads every value through every door, so that a sanitizer sees a view that reaches too far.
uint64_t touch(const argon::GgufValue& v) {
  uint64_t sum = static_cast<uint64_t>(v.type_name().size()) + v.encoded().size();
  if (const auto s = v.as_string()) {
    for (char c : *s) sum += static_cast<unsigned char>(c);
  }
  if (const auto d = v.as_f64()) sum += *d > 0;
  if (const auto b = v.as_bool()) sum += *b;
  for (uint64_t i = 0; v.is_array() && i < v.size(); ++i) sum += touch(v.at(i));
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A block of its own, so that reads beyond the end are seen.
  const auto bytes = std::make_unique<std::byte[]>(size);
  if (size > 0) std::memcpy(bytes.get(), data, size);
  auto file = argon::GgufFile::parse({bytes.get(), size}, "fuzz.gguf");
  if (!file.ok()) {
    check(file.status());
    return 0;
  }
  uint64_t sum = 0;
  for (const argon::GgufEntry& e : (*file)->metadata()) sum += touch(e.value);
  for (const argon::GgufTensor& t : (*file)->tensors()) {
    sum += std::to_integer<uint64_t>(t.data[0]) + std::to_integer<uint64_t>(t.data[t.bytes - 1]);
  }
  auto config = argon::ModelConfig::read(**file);
  if (!config.ok()) {
    check(config.status());
    return 0;
  }
  sum += argon::state_bytes(*config, 1 << 20, argon::ops::KvType::kF16).total();
  auto weights = argon::Weights::bind(**file, *config, [](argon::WeightType) { return true; });
  if (!weights.ok()) check(weights.status());
  volatile uint64_t keep = sum;
  (void)keep;
  return 0;
}
