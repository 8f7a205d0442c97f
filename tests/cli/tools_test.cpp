// argon tokenize, inspect, bench, synth, --version and --help.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/contract.h"
#include "tests/cli/files.h"
#include "tests/cli/process.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {

bool contains(const std::string& text, std::string_view what) { return text.find(what) != std::string::npos; }

std::string ids_line(const nlohmann::json& ids) {
  std::string line;
  for (int id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  return line + "\n";
}

TEST(Tokenize, FixtureCasesFromAFile) {
  TemporaryFolder folder;
  const std::string lines = read_bytes(source_path("tests/data/tokenizer/cases.jsonl"));
  int done = 0;
  for (size_t at = 0; at < lines.size() && done < 12;) {
    const size_t end = lines.find('\n', at);
    const auto j = nlohmann::json::parse(lines.substr(at, end - at));
    at = end + 1;
    const std::string text = j["text"];
    if (text.empty()) continue;
    const Ran r = argon({"tokenize", "-f", folder.write("t", text)});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.out, ids_line(j["ids"])) << text;
    EXPECT_EQ(r.err, "");
    ++done;
  }
  EXPECT_EQ(done, 12);
}

TEST(Tokenize, ControlTokensAndJson) {
  const Ran r = argon({"tokenize", "--json", "<|im_start|>user"});
  const auto j = nlohmann::json::parse(r.out, nullptr, false);
  ASSERT_TRUE(j.is_object()) << r.out;
  EXPECT_EQ(j["pieces"][0], "<|im_start|>");
  EXPECT_EQ(j["ids"].size(), j["pieces"].size());
  EXPECT_EQ(argon({"tokenize", "<|im_start|>user"}).out, ids_line(j["ids"]));
}

TEST(Tokenize, BytesThereAndBack) {
  for (const std::string& text :
       {std::string("What is a glacier?\n\n  <|im_end|> x"), std::string("\xff\xfe caf\xc3 \xf0\x9f"),
        std::string("a\0b", 3), std::string("\r\n\t"), std::string()}) {
    const Ran ids = argon({"tokenize"}, text);
    EXPECT_EQ(ids.exit_code, 0) << ids.err;
    if (text.empty()) {
      EXPECT_EQ(ids.out, "\n");
      continue;
    }
    const Ran back = argon({"tokenize", "--decode"}, ids.out);
    EXPECT_EQ(back.exit_code, 0) << back.err;
    EXPECT_EQ(back.out, text);
  }
}

TEST(Inspect, TextAndJson) {
  const Ran text = argon({"inspect", fixture_path("tiny-random-Q8_0.gguf")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* s : {"qwen4exp.block_count", "Q8_0", "tiny-random"})
    EXPECT_TRUE(contains(text.out, s)) << s;
  const auto j = nlohmann::json::parse(
      argon({"inspect", "--json", fixture_path("tiny-random-Q8_0.gguf")}).out, nullptr, false);
  ASSERT_TRUE(j.is_object());
  EXPECT_EQ(j["metadata"]["general.architecture"], "qwen4exp");
  EXPECT_FALSE(contains(text.out, "blk.0.attn_qkv.weight"));
  EXPECT_TRUE(contains(argon({"inspect", "--tensors", fixture_path("tiny-random-Q8_0.gguf")}).out,
                       "blk.0.attn_qkv.weight"));
}

// Budgets round what the file needs, which the parts add up to.
TEST(Inspect, WhatGoesToTheGpu) {
  const auto ask = [](const std::string& size) {
    const Ran r = argon({"inspect", "--json", "-c", "256", "--pass", "64", "--gpu-memory", size,
                         fixture_path("tiny-random-Q8_0.gguf")});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return nlohmann::json::parse(r.out, nullptr, false)["gpu_memory"];
  };
  const auto all = ask("8G");
  ASSERT_TRUE(all.is_object());
  uint64_t parts = 0;
  for (const auto& [name, bytes] : all["parts"].items()) parts += bytes.get<uint64_t>();
  EXPECT_EQ(all["gpu_bytes"], parts);
  EXPECT_EQ(all["gpu_experts"], all["experts"]);
  EXPECT_EQ(all["cpu_experts_bytes"], 0);
  EXPECT_EQ(all["file_table_bytes"], 0);
  const uint64_t experts = all["parts"]["experts"], table = all["parts"]["n-gram table"];
  const auto half = ask(std::to_string(parts - table - experts / 2));
  EXPECT_LT(half["gpu_experts"], all["experts"]);
  EXPECT_GT(half["gpu_experts"], 0);
  EXPECT_EQ(half["file_table_bytes"], table);
  EXPECT_EQ(half["cpu_experts_bytes"].get<uint64_t>() + half["parts"]["experts"].get<uint64_t>(), experts);
  const std::string least = std::to_string(parts - table - experts);
  EXPECT_EQ(ask(least)["gpu_experts"], 0);
  const std::string file = fixture_path("tiny-random-Q8_0.gguf");
  EXPECT_TRUE(contains(argon({"inspect", "-c", "256", "--pass", "64", "--gpu-memory", least, file}).out,
                       "computed by the CPU"));
  const Ran less = argon({"inspect", "-c", "256", "--pass", "64", "--gpu-memory",
                          std::to_string(parts - table - experts - 1), file});
  EXPECT_EQ(less.exit_code, 1);
  EXPECT_TRUE(contains(less.err, "needed at least") && contains(less.err, "raise --gpu-memory")) << less.err;
}

TEST(Inspect, SaysWhatCannotRun) {
  TemporaryFolder folder;
  ModelChanges c;
  c.retyped = "blk.0.attn_gate.weight";
  write_changed_model(folder.file("m.gguf"), c);
  const Ran r = argon({"inspect", folder.file("m.gguf")});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "TQ1_0")) << r.out;
}

TEST(Inspect, CheckFindsDamagedWeights) {
  const Ran sound = argon({"inspect", "--check", fixture_path("tiny-random-Q8_0.gguf")});
  EXPECT_EQ(sound.exit_code, 0) << sound.err;
  EXPECT_TRUE(contains(sound.out, "all numbers are finite")) << sound.out;
  TemporaryFolder folder;
  std::string bytes = read_bytes(fixture_path("tiny-random-Q8_0.gguf"));
  for (size_t i = bytes.size() - 64; i < bytes.size(); ++i) bytes[i] = '\xff';
  const std::string damaged = folder.write("damaged.gguf", bytes);
  EXPECT_EQ(argon({"inspect", damaged}).exit_code, 0);
  const Ran text = argon({"inspect", "--check", damaged});
  EXPECT_NE(text.exit_code, 0);
  EXPECT_TRUE(contains(text.out, "numbers are NaN or infinite, the first at row")) << text.out;
  EXPECT_TRUE(contains(text.err, "1 of ")) << text.err;
  const auto j = nlohmann::json::parse(argon({"inspect", "--check", "--json", damaged}).out, nullptr, false);
  ASSERT_TRUE(j.is_object());
  EXPECT_EQ(j["runnable"], false);
  EXPECT_EQ(j["check"]["bad"].size(), 1u);
}

TEST(Bench, TableAndJson) {
  const Args common = {"bench", "-m", fixture_path("tiny-random-F32.gguf"), "-p", "8", "-n", "2", "-r", "3",
                       "-t",    "2"};
  const Ran table = argon(common);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* s :
       {"tiny-random-F32.gguf", "2 threads", "cache f16", "prompt ", "step ", "median", "min", "max"}) {
    EXPECT_TRUE(contains(table.out, s)) << s << "\n" << table.out;
  }
  Args json = common;
  json.insert(json.end(), {"--json", "--kv", "f32", "--isa", "scalar", "--pass", "3"});
  const auto j = nlohmann::json::parse(argon(json).out, nullptr, false);
  ASSERT_TRUE(j.is_object());
  EXPECT_EQ(j["engine"], "cpu (scalar, 2 threads)");
  EXPECT_EQ(j["kv"], "f32");
  EXPECT_EQ(j["pass"], 3);
  for (const char* row : {"prompt", "step"}) {
    const auto& s = j[row]["tokens_per_second"];
    EXPECT_EQ(s["all"].size(), 3u);
    EXPECT_GT(s["min"], 0.0);
    EXPECT_LE(s["min"], s["median"]);
    EXPECT_LE(s["median"], s["max"]);
  }
  const Ran prompt_only =
      argon({"bench", "-m", fixture_path("tiny-random-F32.gguf"), "-p", "3", "-n", "0", "-r", "1"});
  EXPECT_EQ(prompt_only.exit_code, 0) << prompt_only.err;
  EXPECT_FALSE(contains(prompt_only.out, "step")) << prompt_only.out;
}

TEST(Synth, WritesAModelThatRuns) {
  TemporaryFolder folder;
  const std::string a = folder.file("a.gguf"), b = folder.file("b.gguf"), c = folder.file("c.gguf");
  const Ran r = synth(a, {"--seed", "3"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "wrote " + a)) << r.err;
  EXPECT_EQ(synth(b, {"--seed", "3"}).exit_code, 0);
  EXPECT_EQ(synth(c, {"--seed", "4"}).exit_code, 0);
  const std::string bytes = read_bytes(a);
  EXPECT_TRUE(bytes == read_bytes(b)) << "one seed, one file";
  EXPECT_FALSE(bytes == read_bytes(c)) << "another seed, another file";
  const Ran run = argon({"run", "-m", a, "-n", "3", "--json", "hello"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Help, EveryCommandHasOneWithTheExitCodes) {
  const Ran top = argon({"--help"});
  EXPECT_EQ(top.exit_code, 0);
  for (const char* c : {"run", "chat", "inspect", "tokenize", "logits", "bench", "synth"}) {
    EXPECT_TRUE(contains(top.out, std::string("\n  ") + c + " ")) << c;
    const Ran r = argon({c, "--help"});
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_EQ(r.err, "");
    EXPECT_TRUE(contains(r.out, std::string("argon ") + c)) << r.out;
    EXPECT_TRUE(contains(r.out, "Exit codes: 0 ")) << r.out;
  }
}

TEST(Version, NamesVersionContractAndInstructionSet) {
  const Ran r = argon({"--version"});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(r.out.starts_with("argon 0.")) << r.out;
  EXPECT_TRUE(contains(r.out, "numeric contract " + std::to_string(kContractVersion))) << r.out;
  EXPECT_TRUE(contains(r.out, "instruction set ")) << r.out;
}

TEST(Version, RunsOnOldProcessors) {
  if (run_program({"/bin/sh", "-c", "command -v qemu-x86_64"}).exit_code != 0)
    GTEST_SKIP() << "no qemu-x86_64 (package qemu-user)";
  for (const char* cpu : {"Nehalem", "Haswell"}) {
    const Ran r = run_program({"qemu-x86_64", "-cpu", cpu, argon_program(), "--version"});
    EXPECT_EQ(r.exit_code, 0) << cpu << ": " << r.err;
    EXPECT_TRUE(r.out.starts_with("argon ")) << r.out;
  }
}

}  // namespace
}  // namespace argon::testing
