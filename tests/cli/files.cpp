#include "tests/cli/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "argon-cli-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code e;
  fs::remove_all(path_, e);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view bytes) const {
  std::ofstream(file(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file(name);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(path_)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_bytes(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  EXPECT_TRUE(f.good()) << path;
  return std::string(std::istreambuf_iterator<char>(f), {});
}

void write_changed_model(const std::string& path, const ModelChanges& c) {
  const auto file = GgufFile::open(c.source.empty() ? tiny_model_path() : c.source);
  ASSERT_TRUE(file.ok()) << file.status().message();
  GgufHeader header;
  for (const GgufEntry& e : (*file)->metadata()) {
    if (e.key == "general.architecture" && !c.architecture.empty()) {
      header.add_string(e.key, c.architecture);
    } else if (e.key == "tokenizer.chat_template" && !c.chat_template.empty()) {
      header.add_string(e.key, c.chat_template);
    } else {
      header.add_encoded(e.key, e.value.type(), e.value.encoded());
    }
  }
  if (c.temperature >= 0) header.add_f32("general.sampling.temp", c.temperature);
  if (c.split_parts > 0) {
    header.add_u16("split.no", 0);
    header.add_u16("split.count", static_cast<uint16_t>(c.split_parts));
    header.add_i32("split.tensors.count", static_cast<int32_t>((*file)->tensors().size()));
  }
  for (const GgufTensor& t : (*file)->tensors()) {
    const auto dims = std::span(t.dims).first(static_cast<size_t>(t.n_dims));
    header.add_tensor(t.name, t.name == c.retyped ? c.type : t.type, dims);
  }
  auto writer = GgufWriter::create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const GgufTensor& t : (*file)->tensors()) {
    const std::vector<std::byte> zeros(t.name == c.retyped ? (*writer)->tensor_bytes_left() : 0);
    const Status s = (*writer)->append(t.name == c.retyped ? std::span<const std::byte>(zeros)
                                                           : std::span(t.data, t.bytes));
    ASSERT_TRUE(s.ok()) << s.message();
  }
  const Status s = (*writer)->finish();
  ASSERT_TRUE(s.ok()) << s.message();
}

Ran synth(const std::string& path, const Args& more) {
  Args args = {"synth", path, "--tokenizer", "--layers", "4", "--head-rows", "50", "--gate-up", "Q8_0"};
  for (const char* size :
       {"V=20000", "H=128", "R=32", "E=4", "K=2", "F=64", "Fs=64", "hk=2", "hv=2", "nq=4", "W=32"}) {
    args.insert(args.end(), {"--set", size});
  }
  args.insert(args.end(), more.begin(), more.end());
  return argon(args);
}

}  // namespace argon::testing
