// The bundled model is found from an installed prefix, and missed in one line.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/files.h"
#include "tests/cli/process.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {
namespace fs = std::filesystem;

TEST(Install, ProgramAndModel) {
  TemporaryFolder prefix;
  const Ran install = run_program({"cmake", "--install", ARGON_BINARY_DIR, "--prefix", prefix.path()});
  ASSERT_EQ(install.exit_code, 0) << install.err;
  const std::string program = prefix.file("bin/argon");
  EXPECT_TRUE(fs::exists(prefix.file("share/argon/models/argon-tiny/argon-tiny-Q8_0.gguf")));
  const Ran run = run_program({program, "run", "-n", "6", "What is a glacier?"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "A slowly moving mass\n");
  // By a link from elsewhere, too.
  fs::create_symlink(program, prefix.file("link"));
  EXPECT_EQ(run_program({prefix.file("link"), "tokenize", "x"}).exit_code, 0);

  fs::remove_all(prefix.file("share"));
  const Ran lost = run_program({program, "run", "hello"});
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_NE(lost.err.find("name a model with -m FILE"), std::string::npos) << lost.err;
}

}  // namespace
}  // namespace argon::testing
