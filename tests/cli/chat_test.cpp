// argon chat, its lines coming over a pipe.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/files.h"
#include "tests/cli/process.h"

namespace argon::testing {
namespace {

constexpr const char* kGlacier = "A slowly moving mass of ice.";

TEST(Chat, TurnsAndSaving) {
  TemporaryFolder folder;
  const std::string json = folder.file("c.json"), markdown = folder.file("my chat.md");
  const Ran r =
      argon({"chat", "--system", "Be brief."},
            "\n  \nWhat is a glacier?\nWhat is a river?\n/save " + json + "\n/save " + markdown + " \n");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(read_bytes(json), nullptr, false);
  ASSERT_TRUE(j.is_object());
  const auto& m = j["messages"];
  ASSERT_EQ(m.size(), 5u);
  EXPECT_EQ(m[0], (nlohmann::json{{"role", "system"}, {"content", "Be brief."}}));
  EXPECT_EQ(m[1], (nlohmann::json{{"role", "user"}, {"content", "What is a glacier?"}}));
  EXPECT_EQ(m[3]["content"], "What is a river?");
  const std::string first = m[2]["content"], second = m[4]["content"];
  EXPECT_EQ(r.out, first + "\n" + second + "\n");
  EXPECT_EQ(read_bytes(markdown),
            "## system\n\nBe brief.\n\n## user\n\nWhat is a glacier?\n\n## assistant\n\n" + first +
                "\n\n## user\n\nWhat is a river?\n\n## assistant\n\n" + second + "\n");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"c.json", "my chat.md"}));
  // The second turn reads less than the whole conversation again.
  EXPECT_NE(r.err.find(" new), "), std::string::npos) << r.err;
  // No prompt outside a terminal.
  EXPECT_EQ(r.err.find("> "), std::string::npos) << r.err;
}

TEST(Chat, ResetForgets) {
  const Ran r = argon({"chat"}, "What is a river?\n/reset\nWhat is a glacier?\n/exit\nWhat is a dog?\n");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(r.out.ends_with(std::string("\n") + kGlacier + "\n")) << r.out;
  EXPECT_NE(r.err.find("prompt: 22 tokens"), std::string::npos) << r.err;
  EXPECT_EQ(r.out.find("dog"), std::string::npos);
}

TEST(Chat, LastLineWithoutANewline) {
  EXPECT_EQ(argon({"chat"}, "What is a glacier?").out, std::string(kGlacier) + "\n");
  EXPECT_EQ(argon({"chat"}, "What is a glacier?\r\n").out, std::string(kGlacier) + "\n");
}

TEST(Chat, Help) {
  const Ran r = argon({"chat"}, "/help\n");
  EXPECT_EQ(r.exit_code, 0);
  for (const char* c : {"/reset", "/save", "/help", "/exit"})
    EXPECT_NE(r.err.find(c), std::string::npos) << c;
}

TEST(Chat, SavingFailsWithoutHarm) {
  TemporaryFolder folder;
  folder.write("c.json", "before");
  const Ran r = argon({"chat"}, "/save " + folder.file("none/c.json") + "\n");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(read_bytes(folder.file("c.json")), "before");
}

TEST(Chat, ClosedInputIsNotTheModelFile) {
  const Ran r = run_program({"/bin/sh", "-c", "exec \"$0\" chat <&-", argon_program()});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, "");
}

TEST(Chat, AModelFileThatChangedIsFoundBetweenAnswers) {
  TemporaryFolder folder;
  const std::string model = folder.file("m.gguf");
  write_changed_model(model, {});
  Process p({argon_program(), "chat", "-m", model}, Process::Io::kPipes);
  p.type("What is a glacier?\n");
  ASSERT_TRUE(p.wait_for_err("| stop"));
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 4096);
  p.type("What is a river?\n");
  p.close_input();
  const Ran r = p.finish();
  EXPECT_EQ(r.exit_code, 2) << r.err;
  EXPECT_EQ(r.out, std::string(kGlacier) + "\n");
  EXPECT_NE(r.err.find("was changed while in use"), std::string::npos) << r.err;
}

TEST(Chat, ControlCWhileWaiting) {
  Process p({argon_program(), "chat"}, Process::Io::kPipes);
  p.type("What is a glacier?\n");
  ASSERT_TRUE(p.wait_for_err("| stop\n"));
  p.signal(SIGINT);
  Ran r = p.finish();
  EXPECT_EQ(r.exit_code, 130);
  EXPECT_EQ(r.out, std::string(kGlacier) + "\n");
}

}  // namespace
}  // namespace argon::testing
