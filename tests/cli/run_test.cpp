// argon run.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/cli/files.h"
#include "tests/cli/process.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {

constexpr const char* kQuestion = "What is a glacier?";
constexpr const char* kAnswer = "A slowly moving mass of ice.";
constexpr const char* kThinkingTemplate =
    "{{ '<|im_start|>assistant' }}{% if enable_thinking %}<think>{% else %}</think>{% endif %}<|im_end|>";

nlohmann::json run_json(Args args) {
  args.insert(args.begin(), {"run", "--json"});
  const Ran r = argon(args);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  auto j = nlohmann::json::parse(r.out, nullptr, false);
  EXPECT_TRUE(j.is_object()) << r.out;
  return j;
}

bool contains(const std::string& text, std::string_view what) { return text.find(what) != std::string::npos; }

TEST(Run, AnswersOnStandardOutputAlone) {
  const Ran r = argon({"run", kQuestion});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, std::string(kAnswer) + "\n");
  // The one line on standard error.
  EXPECT_TRUE(r.err.starts_with("prompt: 22 tokens, ")) << r.err;
  EXPECT_TRUE(contains(r.err, "| answer: 10 tokens, ")) << r.err;
  EXPECT_TRUE(r.err.ends_with(" tokens/s | stop\n")) << r.err;
  EXPECT_EQ(r.err.find('\n'), r.err.size() - 1) << r.err;
}

TEST(Run, TakesTextFromEverySource) {
  TemporaryFolder folder;
  const std::string file = folder.write("prompt.txt", kQuestion);
  const std::string wanted = "A slowly moving mass\n";
  for (const Args& source : {Args{kQuestion}, Args{"-p", kQuestion}, Args{"-f", file}}) {
    Args args = {"run", "-n", "6"};
    args.insert(args.end(), source.begin(), source.end());
    const Ran r = argon(args);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.out, wanted) << source[0];
    EXPECT_TRUE(contains(r.err, "| length")) << r.err;
  }
  EXPECT_EQ(argon({"run", "-n", "6"}, kQuestion).out, wanted);
  EXPECT_EQ(argon({"run", "-n", "6", "-f", "-"}, kQuestion).out, wanted);
  // White space at the ends is not part of a message.
  EXPECT_EQ(argon({"run", "-n", "6"}, std::string(kQuestion) + "\n").out, wanted);
}

TEST(Run, TextThatLooksLikeACommandOrOption) {
  EXPECT_EQ(argon({"run", "-n", "1", "chat"}).exit_code, 0);
  EXPECT_EQ(argon({"run", "-n", "1", "-p", "--json"}).exit_code, 0);
  EXPECT_EQ(argon({"run", "-n", "1", "--", "--json"}).exit_code, 0);
}

TEST(Run, JsonSaysEverything) {
  const auto j = run_json({kQuestion});
  EXPECT_EQ(j["text"], kAnswer);
  EXPECT_EQ(j["thinking"], "");
  EXPECT_EQ(j["finish_reason"], "stop");
  EXPECT_EQ(j["prompt_tokens"], 22);
  EXPECT_EQ(j["answer_tokens"], 10);
  EXPECT_EQ(j["tokens"].size(), 10u);
  EXPECT_EQ(j["seed"], 0);
  EXPECT_EQ(j["sampling"]["temperature"], 0.0);
  EXPECT_EQ(j["model"], "argon-tiny-Q8_0.gguf");
  for (const char* t : {"load_seconds", "prompt_seconds", "answer_seconds", "prompt_tokens_per_second",
                        "answer_tokens_per_second"}) {
    EXPECT_GT(j["timings"][t], 0.0) << t;
  }
}

TEST(Run, DefaultsOfSampling) {
  // The bundled model named: the family's.
  auto j = run_json({"-n", "1", "-m", tiny_model_path(), "x"})["sampling"];
  EXPECT_EQ(j["temperature"], 0.7);
  EXPECT_EQ(j["top_k"], 20);
  EXPECT_EQ(j["top_p"], 0.8);
  // The file's own come before these, and the user's before the file's.
  TemporaryFolder folder;
  ModelChanges c;
  c.temperature = 0.25f;
  write_changed_model(folder.file("m.gguf"), c);
  EXPECT_EQ(run_json({"-n", "1", "-m", folder.file("m.gguf"), "x"})["sampling"]["temperature"], 0.25);
  j = run_json(
      {"-n", "1", "-m", folder.file("m.gguf"), "--temp", "1.5", "--top-k", "3", "--min-p", "0.1", "x"});
  EXPECT_EQ(j["sampling"]["temperature"], 1.5);
  EXPECT_EQ(j["sampling"]["top_k"], 3);
  EXPECT_EQ(j["sampling"]["min_p"], 0.1);
}

TEST(Run, SeedDecidesTheDraws) {
  const Args hot = {"--temp", "1.5", "--top-k", "0", "--top-p", "1", "-n", "8", "Tell me about dogs."};
  const auto with = [&](const char* seed) {
    Args a = {"--seed", seed};
    a.insert(a.end(), hot.begin(), hot.end());
    return run_json(a);
  };
  const auto a = with("5"), b = with("5"), c = with("6");
  EXPECT_EQ(a["seed"], 5);
  EXPECT_EQ(a["tokens"], b["tokens"]);
  EXPECT_NE(a["tokens"], c["tokens"]);
  EXPECT_NE(with("random")["seed"], with("random")["seed"]);
  const Ran r = argon({"run", "-n", "1", "--temp", "1", "--seed", "7", "x"});
  EXPECT_TRUE(r.err.ends_with("| seed 7\n")) << r.err;
}

TEST(Run, StopStrings) {
  auto j = run_json({kQuestion, "--stop", "nothing", "--stop", "mass"});
  EXPECT_EQ(j["text"], "A slowly moving ");
  EXPECT_EQ(j["finish_reason"], "stop");
}

TEST(Run, NoTokens) {
  const auto j = run_json({kQuestion, "-n", "0"});
  EXPECT_EQ(j["text"], "");
  EXPECT_EQ(j["finish_reason"], "length");
}

TEST(Run, ResultsDoNotDependOnHowTheyAreComputed) {
  const auto plain = run_json({"-n", "4", kQuestion})["tokens"];
  EXPECT_EQ(run_json({"-n", "4", "-t", "1", kQuestion})["tokens"], plain);
  EXPECT_EQ(run_json({"-n", "4", "-t", "3", "--pass", "5", kQuestion})["tokens"], plain);
  EXPECT_EQ(run_json({"-n", "4", "--isa", "scalar", kQuestion})["tokens"], plain);
}

TEST(Run, RawContinuesAndRecognisesControlTokens) {
  const Ran r = argon(
      {"run", "--raw",
       "<|im_start|>user\nWhat is a glacier?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"});
  EXPECT_EQ(r.out, std::string(kAnswer) + "\n");
}

TEST(Run, UserTextIsNeverAControlToken) {
  const int plain = run_json({"-n", "1", "ab"})["prompt_tokens"];
  const int with = run_json({"-n", "1", "a<|im_end|>b"})["prompt_tokens"];
  const int raw_plain = run_json({"-n", "1", "--raw", "ab"})["prompt_tokens"];
  const int raw_with = run_json({"-n", "1", "--raw", "a<|im_end|>b"})["prompt_tokens"];
  EXPECT_GT(with, plain + 3);          // spelled out
  EXPECT_LE(raw_with, raw_plain + 2);  // one token
}

TEST(Run, SystemMessage) {
  const int without = run_json({"-n", "1", "x"})["prompt_tokens"];
  EXPECT_GT(run_json({"-n", "1", "--system", "Be brief.", "x"})["prompt_tokens"], without + 5);
}

TEST(Run, ThinkingOnlyWhereTheModelCan) {
  TemporaryFolder folder;
  ModelChanges c;
  c.chat_template = kThinkingTemplate;
  write_changed_model(folder.file("m.gguf"), c);
  const Args thinking = {"-m", folder.file("m.gguf"), "--temp", "0", "-n", "12", kQuestion};
  const int open = run_json(thinking)["prompt_tokens"];
  Args off = thinking;
  off.push_back("--no-think");
  const auto closed = run_json(off);
  EXPECT_LT(open, closed["prompt_tokens"]);
  EXPECT_EQ(closed["text"], kAnswer);
}

TEST(Run, ThinkingGoesToStandardError) {
  // A model of random weights never closes what the prompt has opened: all that it writes is thinking.
  TemporaryFolder folder;
  ModelChanges c;
  c.source = folder.file("random.gguf");
  c.chat_template = kThinkingTemplate;
  ASSERT_EQ(synth(c.source, {}).exit_code, 0);
  write_changed_model(folder.file("m.gguf"), c);
  const Args args = {"-m", folder.file("m.gguf"), "--temp", "1", "-n", "20", "hello"};
  const auto j = run_json(args);
  const std::string thought = j["thinking"];
  EXPECT_GT(thought.size(), 20u);
  EXPECT_EQ(j["text"], "");
  Args plain = args;
  plain.insert(plain.begin(), "run");
  Ran r = argon(plain);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(r.err.starts_with(thought + "\n")) << r.err;
  EXPECT_FALSE(contains(r.err, "\x1b")) << "no colours outside a terminal";

  plain.push_back("--no-think");
  r = argon(plain);
  EXPECT_GT(r.out.size(), 20u);
  EXPECT_TRUE(r.err.starts_with("prompt: ")) << r.err;
}

TEST(Run, AnotherTemplateIsNamedInOneWarning) {
  TemporaryFolder folder;
  ModelChanges c;
  c.chat_template = "{{ '[INST]' }} of another family";
  write_changed_model(folder.file("m.gguf"), c);
  const Ran r = argon({"run", "-n", "1", "-m", folder.file("m.gguf"), "x"});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(r.err.starts_with("argon: warning: ")) << r.err;
  EXPECT_TRUE(contains(r.err, "[INST]")) << r.err;
}

TEST(Run, LargeContextIsAllowedWithAWarning) {
  const Ran r = argon({"run", "-n", "1", "-c", "8193", "x"});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(contains(r.err, "8192 tokens that the model was made for")) << r.err;
}

TEST(Run, InvalidUtf8IsAccepted) {
  EXPECT_EQ(argon({"run", "-n", "1", "-p", "\xff\xfe caf\xc3"}).exit_code, 0);
  EXPECT_EQ(argon({"run", "-n", "1"}, std::string("a\0b\xf0\x9f", 5)).exit_code, 0);
}

class Endless : public ::testing::Test {
 protected:
  // A run that goes on until it is stopped.
  std::unique_ptr<Process> start() {
    const std::string model = folder_.file("m.gguf");
    EXPECT_EQ(synth(model, {}).exit_code, 0);
    auto p = std::make_unique<Process>(
        Args{argon_program(), "run", "-m", model, "--temp", "1", "--top-k", "0", "--top-p", "1", "hello"},
        Process::Io::kPipes);
    p->close_input();
    EXPECT_TRUE(p->wait_for_some_out());
    return p;
  }
  TemporaryFolder folder_;
};

TEST_F(Endless, ControlCEndsCleanly) {
  const auto p = start();
  p->signal(SIGINT);
  const Ran r = p->finish();
  EXPECT_EQ(r.exit_code, 130);
  EXPECT_TRUE(r.out.ends_with("\n"));
  EXPECT_TRUE(contains(r.err, "\nprompt: ")) << r.err;
  EXPECT_TRUE(contains(r.err, "| cancelled")) << r.err;
}

TEST_F(Endless, AReaderThatGoesEndsItQuietly) {
  const auto p = start();
  p->close_output();
  const Ran r = p->finish();
  EXPECT_EQ(r.exit_code, 0);
  // The file's template gives a warning; there is nothing after it.
  EXPECT_TRUE(r.err.starts_with("argon: warning: ")) << r.err;
  EXPECT_EQ(r.err.find('\n'), r.err.size() - 1) << r.err;
}

TEST(Run, AFullDiskIsAFailure) {
  const Ran r = run_program({"/bin/sh", "-c", "exec \"$0\" run -n 3 hello > /dev/full", argon_program()});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.err, "argon: cannot write to standard output: No space left on device\n");
}

}  // namespace
}  // namespace argon::testing
