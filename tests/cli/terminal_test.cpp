// What is there on a terminal only: the progress bar, line editing, the history, Ctrl-C at the prompt.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/cli/files.h"
#include "tests/cli/process.h"

namespace argon::testing {
namespace {

class Terminal : public ::testing::Test {
 protected:
  Terminal() {
    ::setenv("XDG_STATE_HOME", state_.path().c_str(), 1);
    ::setenv("HOME", state_.path().c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C", 1);
  }
  TemporaryFolder state_;
};

constexpr const char* kGlacier = "A slowly moving mass of ice.\n";

TEST_F(Terminal, ProgressWhileLoadingAndReading) {
  Process p({argon_program(), "run", "-n", "3", "What is a glacier?"}, Process::Io::kTerminal);
  const Ran r = p.finish();
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_EQ(r.out, "A slow\n");
  const size_t loading = r.err.find("loading argon-tiny-Q8_0.gguf"),
               reading = r.err.find("reading the prompt: ");
  EXPECT_NE(loading, std::string::npos) << r.err;
  EXPECT_NE(reading, std::string::npos) << r.err;
  EXPECT_LT(loading, reading);
  // The bar is gone when the last line comes.
  EXPECT_NE(r.err.find("\r\x1b[Kprompt: "), std::string::npos) << r.err;
}

TEST_F(Terminal, NoProgressElsewhere) {
  const Ran r = argon({"run", "-n", "1", "What is a glacier?"});
  EXPECT_EQ(r.err.find_first_of("\x1b\r"), std::string::npos) << r.err;
}

TEST_F(Terminal, ChatWithEditingAndHistory) {
  Process p({argon_program(), "chat"}, Process::Io::kTerminal);
  ASSERT_TRUE(p.wait_for_err("/help"));
  ASSERT_TRUE(p.wait_for_err("> "));
  // A word too much is taken back, a letter in the middle put right.
  p.type(
      "What is a glXcier? no\x17\x7f\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x7f"
      "a\r");
  ASSERT_TRUE(p.wait_for_out(kGlacier));
  ASSERT_TRUE(p.wait_for_err("| stop"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("/reset\r");
  ASSERT_TRUE(p.wait_for_err("new conversation"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("\x1b[A\x1b[A\r");  // two lines back
  ASSERT_TRUE(p.wait_for_out(kGlacier));
  ASSERT_TRUE(p.wait_for_err("| stop"));
  ASSERT_TRUE(p.wait_for_err("> "));
  // Mistakes do not end it.
  p.type("/nonsense\r");
  ASSERT_TRUE(p.wait_for_err("unknown command /nonsense"));
  ASSERT_TRUE(p.wait_for_err("> "));
  // Ctrl-C drops the line, once and again.
  p.type("half a line\x03");
  ASSERT_TRUE(p.wait_for_err("/exit or Ctrl-D ends"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("\x03");
  ASSERT_TRUE(p.wait_for_err("/exit or Ctrl-D ends"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("/save " + state_.file("c.md") + "\r");
  ASSERT_TRUE(p.wait_for_err("saved"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("\x04");
  const Ran r = p.finish();
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_EQ(read_bytes(state_.file("c.md")),
            "## user\n\nWhat is a glacier?\n\n## assistant\n\nA slowly moving mass of ice.\n");

  struct stat st;
  ASSERT_EQ(::stat(state_.file("argon/history").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
  EXPECT_NE(read_bytes(state_.file("argon/history")).find("glacier"), std::string::npos);

  // The next conversation remembers.
  Process next({argon_program(), "chat"}, Process::Io::kTerminal);
  ASSERT_TRUE(next.wait_for_err("> "));
  next.type("\x1b[A");
  ASSERT_TRUE(next.wait_for_err("/save"));
  next.type("\x03");
  ASSERT_TRUE(next.wait_for_err("> "));
  next.type("/exit\r");
  EXPECT_EQ(next.finish().exit_code, 0);
}

TEST_F(Terminal, ControlCStopsAnAnswerAndTheChatGoesOn) {
  const std::string model = state_.file("m.gguf");
  ASSERT_EQ(synth(model, {}).exit_code, 0);
  Process p({argon_program(), "chat", "-m", model, "--temp", "1", "--top-k", "0", "--top-p", "1"},
            Process::Io::kTerminal);
  ASSERT_TRUE(p.wait_for_err("> "));
  for (int i = 0; i < 2; ++i) {
    p.skip_out();
    p.type("Tell me everything.\r");
    ASSERT_TRUE(p.wait_for_some_out());
    p.type("\x03");
    ASSERT_TRUE(p.wait_for_err("| cancelled"));
    ASSERT_TRUE(p.wait_for_err("> "));
  }
  p.type("\x04");
  EXPECT_EQ(p.finish().exit_code, 0);
}

TEST_F(Terminal, Utf8InTheLine) {
  Process p({argon_program(), "chat", "-n", "1"}, Process::Io::kTerminal);
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("Caf\xc3\xa9 \xe4\xb8\xad?\r");
  ASSERT_TRUE(p.wait_for_err("| length"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("/save " + state_.file("u.md") + "\r");
  ASSERT_TRUE(p.wait_for_err("saved"));
  ASSERT_TRUE(p.wait_for_err("> "));
  p.type("\x04");
  EXPECT_EQ(p.finish().exit_code, 0);
  EXPECT_TRUE(read_bytes(state_.file("u.md")).starts_with("## user\n\nCaf\xc3\xa9 \xe4\xb8\xad?\n"));
}

}  // namespace
}  // namespace argon::testing
