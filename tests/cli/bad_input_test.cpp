// Bad input ends in one clear line on standard error and exit code 2, with nothing on standard output and no
// file written.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/files.h"
#include "tests/cli/process.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {

// `says`: what the line must hold.
void expect_refused(const Args& args, const std::string& says, std::string_view input = "") {
  const Ran r = argon(args, input);
  std::string shown;
  for (const std::string& a : args) shown += " " + a.substr(0, 60);
  EXPECT_EQ(r.exit_code, 2) << shown << "\n" << r.err;
  EXPECT_EQ(r.out, "") << shown;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << shown << "\n" << r.err;
  EXPECT_TRUE(r.err.starts_with("argon: ") && r.err.ends_with("\n")) << shown << "\n" << r.err;
  EXPECT_NE(r.err.find(says), std::string::npos) << shown << "\nwanted: " << says << "\nfound: " << r.err;
}

class BadModel : public ::testing::Test {
 protected:
  // Through every command that opens a model; logits must leave no file.
  void expect_model_refused(const std::string& path, const std::string& says) {
    const std::string out = folder_.file("out.f32");
    expect_refused({"run", "-m", path, "-n", "1", "hello"}, says);
    expect_refused({"logits", "-m", path, "--tokens", "-", "-o", out}, says, "1 2 3");
    EXPECT_FALSE(std::filesystem::exists(out)) << path;
    for (const std::string& n : folder_.names()) EXPECT_EQ(n.find("out.f32"), std::string::npos) << n;
  }
  TemporaryFolder folder_;
};

TEST_F(BadModel, Missing) { expect_model_refused(folder_.file("no.gguf"), "no such file"); }

TEST_F(BadModel, Folder) { expect_model_refused(folder_.path(), "is a directory"); }

TEST_F(BadModel, Empty) { expect_model_refused(folder_.write("empty.gguf", ""), "empty"); }

TEST_F(BadModel, WrongMagic) {
  expect_model_refused(folder_.write("text.gguf", std::string(4096, 'x')), "GGUF");
}

TEST_F(BadModel, Version1) {
  std::string bytes = read_bytes(tiny_model_path());
  bytes[4] = 1;
  expect_model_refused(folder_.write("v1.gguf", bytes), "version");
}

TEST_F(BadModel, TruncatedAnywhere) {
  const std::string bytes = read_bytes(fixture_path("tiny-random-Q8_0.gguf"));
  for (const size_t n : {size_t{1}, size_t{4}, size_t{8}, size_t{23}, size_t{24}, size_t{100}, size_t{1000},
                         bytes.size() / 100, bytes.size() / 10, bytes.size() / 2, bytes.size() - 40}) {
    SCOPED_TRACE(n);
    const std::string path = folder_.write("cut.gguf", std::string_view(bytes).substr(0, n));
    expect_refused({"run", "-m", path, "hello"}, "cut.gguf");
  }
}

TEST_F(BadModel, OtherArchitectureIsNamed) {
  ModelChanges c;
  c.architecture = "gemma7";
  write_changed_model(folder_.file("other.gguf"), c);
  expect_model_refused(folder_.file("other.gguf"), "gemma7");
}

TEST_F(BadModel, MissingPart) {
  ModelChanges c;
  c.split_parts = 3;
  write_changed_model(folder_.file("m-00001-of-00003.gguf"), c);
  expect_model_refused(folder_.file("m-00001-of-00003.gguf"), "m-00002-of-00003.gguf");
}

TEST_F(BadModel, TypeNotSupportedIsNamed) {
  ModelChanges c;
  c.retyped = "blk.0.attn_gate.weight";
  c.type = WeightType::kTQ1_0;
  write_changed_model(folder_.file("tq.gguf"), c);
  expect_model_refused(folder_.file("tq.gguf"), "TQ1_0");
}

TEST(BadInput, PromptLongerThanTheContext) {
  expect_refused({"run", "-c", "8", "What is the meaning of the word glacier?"}, "context holds 8");
  expect_refused({"chat", "-c", "8"}, "context holds 8", "What is the meaning of the word glacier?\n");
}

TEST(BadInput, MoreTokensThanTheContext) {
  TemporaryFolder folder;
  expect_refused({"logits", "-c", "2", "--tokens", "-", "-o", folder.file("o")}, "context holds 2", "1 2 3");
  expect_refused({"bench", "-p", "8190", "-n", "3"}, "context holds 8192");
  EXPECT_TRUE(folder.names().empty());
}

TEST(BadInput, OptionValues) {
  const struct {
    Args option;
    const char* says;
  } rows[] = {
      {{"-c", "0"}, "-c is 0"},
      {{"-c", "-5"}, "-c is -5"},
      {{"-c", "16777217"}, "-c is 16777217"},
      {{"-c", "99999999999999999999"}, "-c"},
      {{"-c", "1.5"}, "-c"},
      {{"-c", "many"}, "'many'"},
      {{"-n", "-2"}, "-n is -2"},
      {{"-n", "16777217"}, "-n is 16777217"},
      {{"-n", ""}, "empty"},
      {{"-m", ""}, "empty"},
      {{"--isa", ""}, "empty"},
      {{"-t", "0"}, "-t is 0"},
      {{"-t", "-1"}, "-t is -1"},
      {{"-t", "1025"}, "-t is 1025"},
      {{"--pass", "0"}, "--pass is 0"},
      {{"--temp", "-0.1"}, "temperature is -0.1"},
      {{"--temp", "101"}, "temperature is 101"},
      {{"--temp", "nan"}, "temperature is nan"},
      {{"--temp", "1e999"}, "temp"},
      {{"--temp", "warm"}, "'warm': wanted a number"},
      {{"--top-k", "-1"}, "--top-k is -1"},
      {{"--top-p", "0"}, "top-p is 0"},
      {{"--top-p", "1.1"}, "top-p is 1.1"},
      {{"--min-p", "1"}, "min-p is 1"},
      {{"--repeat-penalty", "0"}, "repeat-penalty is 0"},
      {{"--presence-penalty", "inf"}, "presence-penalty is inf"},
      {{"--repeat-last-n", "-1"}, "--repeat-last-n is -1"},
      {{"--seed", "-1"}, "--seed is '-1'"},
      {{"--seed", "18446744073709551616"}, "--seed is"},
      {{"--stop", ""}, "--stop is empty"},
      {{"--kv", "q8"}, "--kv is 'q8'"},
      {{"--isa", "sse9"}, "'sse9'"},
      {{"--backend", "tpu"}, "'tpu'"},
      {{"--gpu-memory", "12X"}, "--gpu-memory is '12X'"},
      {{"--gpu-memory", "12GB"}, "--gpu-memory is '12GB'"},
      {{"--gpu-memory", "-1G"}, "--gpu-memory is '-1G'"},
      {{"--gpu-memory", "nan"}, "--gpu-memory is 'nan'"},
      {{"--backend", "cpu", "--gpu-memory", "12G"}, "--gpu-memory is for a CUDA device"},
      {{"--no-such-option"}, "--no-such-option"},
  };
  for (const auto& row : rows) {
    Args args = {"run", "hello"};
    args.insert(args.end(), row.option.begin(), row.option.end());
    expect_refused(args, row.says);
  }
  expect_refused({"chat", "--temp", "-1"}, "temperature");
  expect_refused({"bench", "-p", "-1"}, "-p is -1");
  expect_refused({"bench", "-r", "0"}, "-r is 0");
  expect_refused({"bench", "-p", "0", "-n", "0"}, "nothing to measure");
  expect_refused({"inspect", "-c", "-1"}, "-c is -1");
  expect_refused({"inspect", "--gpu-memory", "much"}, "--gpu-memory is 'much'");
}

TEST(BadInput, CommandLine) {
  expect_refused({"rnu"}, "rnu");
  expect_refused({"--nonsense"}, "--nonsense");
  expect_refused({"run", "one", "two"}, "two");
  expect_refused({"run", "-m"}, "-m");
  expect_refused({"run", "one\ntwo", "three\nfour"}, "three four");
  expect_refused({"logits", "--tokens", "x"}, "--out");
  expect_refused({"logits", "-o", "x"}, "--tokens");
  expect_refused({"synth"}, "OUT");
  const Ran r = argon({});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("Usage"), std::string::npos) << r.err;
}

TEST(BadInput, Prompt) {
  TemporaryFolder folder;
  expect_refused({"run", "one", "-p", "two"}, "given twice");
  expect_refused({"run", "one", "-f", folder.write("t", "two")}, "given twice");
  expect_refused({"run", "-f", folder.file("none")}, "No such file");
  expect_refused({"run", "-f", folder.path()}, "directory");
  expect_refused({"run", ""}, "empty");
  expect_refused({"run"}, "empty", "");
  expect_refused({"run", "--raw", "--system", "x", "y"}, "--system");
}

TEST(BadInput, Tokens) {
  TemporaryFolder folder;
  const std::string out = folder.file("o.f32");
  for (const char* bad : {"", " \n", "1 2 x", "1,2", "-1", "4096", "1 2.0", "99999999999"}) {
    expect_refused({"logits", "--tokens", "-", "-o", out}, "token", bad);
  }
  expect_refused({"logits", "--tokens", folder.file("none"), "-o", out}, "No such file");
  expect_refused({"tokenize", "--decode", "4096"}, "4096");
  EXPECT_TRUE(folder.names().empty());
}

TEST(BadInput, PlacesToWrite) {
  TemporaryFolder folder;
  expect_refused({"logits", "--tokens", "-", "-o", folder.path()}, "directory", "1 2");
  expect_refused({"logits", "--tokens", "-", "-o", folder.file("none/o")}, "No such file", "1 2");
  const TemporaryFolder inputs;
  const std::string ids = inputs.write("ids", "1 2");
  expect_refused({"logits", "--tokens", ids, "-o", ids}, "which --tokens reads");
  const std::string model = inputs.write("model.gguf", "GGUF");
  expect_refused({"logits", "-m", model, "--tokens", ids, "-o", inputs.path() + "/./model.gguf"},
                 "which -m reads");
  EXPECT_EQ(read_bytes(ids), "1 2");
  EXPECT_EQ(read_bytes(model), "GGUF");
  const Ran r = synth(folder.file("none/o.gguf"), {});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("none/o.gguf"), std::string::npos) << r.err;
  EXPECT_TRUE(folder.names().empty());
}

TEST(BadInput, Synth) {
  TemporaryFolder folder;
  const std::string out = folder.file("o.gguf");
  expect_refused({"synth", out, "--set", "Q=3"}, "--set is 'Q=3'");
  expect_refused({"synth", out, "--set", "E=x"}, "--set is 'E=x'");
  expect_refused({"synth", out, "--down", "Q9"}, "--down is 'Q9'");
  expect_refused({"synth", out, "--layers", "0"}, "--layers is 0");
  expect_refused({"synth", out, "--set", "E=4"}, "expert");
  // Sizes that nothing could be made of, or that do not fit the file's numbers.
  expect_refused({"synth", out, "--set", "interval=0"}, "--set interval is 0: wanted");
  expect_refused({"synth", out, "--set", "draft_blocks=9"}, "--set draft_blocks is 9: wanted");
  expect_refused({"synth", out, "--set", "V=16777217"}, "--set V is 16777217: wanted");
  expect_refused({"synth", out, "--set", "H=4294967552"}, "--set H is 4294967552: wanted");
  expect_refused({"synth", out, "--set", "ple_layer=-2"}, "--set ple_layer is -2: wanted");
  EXPECT_TRUE(folder.names().empty());
}

TEST(BadInput, Chat) {
  TemporaryFolder folder;
  expect_refused({"chat"}, "/nonsense", "/nonsense\n");
  expect_refused({"chat"}, ".json or", "/save " + folder.file("x.txt") + "\n");
  expect_refused({"chat"}, "names no file", "/save\n");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace argon::testing
