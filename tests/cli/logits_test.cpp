// argon logits: the file, its checksum, and that neither depends on how it was computed.
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/cli/files.h"
#include "tests/cli/process.h"
#include "tests/harness/paths.h"

namespace argon::testing {
namespace {

constexpr const char* kIds = "1 2\n3\t4   5 6 7 8 9 10 11\n";
constexpr int64_t kTokens = 11, kVocabulary = 384;

std::string sha256_hex(const std::string& bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  std::string hex;
  char two[3];
  for (unsigned char c : digest) {
    std::snprintf(two, sizeof two, "%02x", c);
    hex += two;
  }
  return hex;
}

struct Logits {
  std::string sha, bytes;
};

class LogitsCommand : public ::testing::Test {
 protected:
  Logits logits(Args options) {
    const std::string out = folder_.file("out.f32");
    Args args = {"logits", "-m", fixture_path("tiny-random-F32.gguf"), "--tokens", "-", "-o", out};
    args.insert(args.end(), options.begin(), options.end());
    const Ran r = argon(args, kIds);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return {r.out, read_bytes(out)};
  }
  TemporaryFolder folder_;
};

TEST_F(LogitsCommand, FileAndChecksum) {
  const Logits l = logits({});
  EXPECT_EQ(l.bytes.size(), static_cast<size_t>(kTokens * kVocabulary) * sizeof(float));
  EXPECT_EQ(l.sha, sha256_hex(l.bytes) + "\n");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"out.f32"});
}

TEST_F(LogitsCommand, TheSameBitsHoweverComputed) {
  const Logits l = logits({});
  for (const Args& a : {Args{"--pass", "1"}, Args{"--pass", "4"}, Args{"-t", "1"},
                        Args{"-t", "3", "--pass", "7"}, Args{"--isa", "scalar"}}) {
    EXPECT_EQ(logits(a).bytes, l.bytes) << a[0] << " " << a[1];
  }
  EXPECT_NE(logits({"--kv", "f32"}).bytes, l.bytes) << "the cache's type is part of the result";
}

TEST_F(LogitsCommand, TheSameBitsOnOldProcessors) {
  if (run_program({"/bin/sh", "-c", "command -v qemu-x86_64"}).exit_code != 0)
    GTEST_SKIP() << "no qemu-x86_64 (package qemu-user)";
  const std::string file = folder_.write("ids", kIds), out = folder_.file("old.f32");
  const Logits l = logits({});
  for (const char* cpu : {"Nehalem", "Haswell"}) {
    const Ran r = run_program({"qemu-x86_64", "-cpu", cpu, argon_program(), "logits", "-m",
                               fixture_path("tiny-random-F32.gguf"), "--tokens", file, "-o", out});
    EXPECT_EQ(r.exit_code, 0) << cpu << ": " << r.err;
    EXPECT_EQ(r.out, l.sha) << cpu;
    EXPECT_EQ(read_bytes(out), l.bytes) << cpu;
  }
}

TEST_F(LogitsCommand, ReplacesAFileOnlyWhenItSucceeds) {
  const std::string out = folder_.write("kept.f32", "before");
  const std::string model = fixture_path("tiny-random-F32.gguf");
  EXPECT_EQ(argon({"logits", "-m", model, "--tokens", "-", "-o", out}, "1 2 999999").exit_code, 2);
  EXPECT_EQ(read_bytes(out), "before");
  EXPECT_EQ(argon({"logits", "-m", model, "--tokens", "-", "-o", out}, "1 2").exit_code, 0);
  EXPECT_EQ(read_bytes(out).size(), static_cast<size_t>(2 * kVocabulary) * sizeof(float));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"kept.f32"});
}

TEST_F(LogitsCommand, LeavesNothingWhenTheDiskIsFull) {
  const std::string out = folder_.write("kept.f32", "before");
  const Ran r = run_program({"/bin/sh", "-c", "ulimit -f 1; exec \"$0\" \"$@\"", argon_program(), "logits",
                             "-m", fixture_path("tiny-random-F32.gguf"), "--tokens", "-", "-o", out},
                            kIds);
  EXPECT_EQ(r.exit_code, 1) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
  EXPECT_EQ(read_bytes(out), "before");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"kept.f32"});
}

TEST_F(LogitsCommand, LeavesNothingWhenItIsTerminated) {
  const std::string out = folder_.write("kept.f32", "before");
  std::string ids;
  for (int i = 0; i < 20000; ++i) ids += "7 ";
  Process p({argon_program(), "logits", "-m", fixture_path("tiny-random-F32.gguf"), "--tokens", "-", "-o",
             out, "--pass", "16", "-c", "20000"},
            Process::Io::kPipes);
  p.type(ids);
  p.close_input();
  // The temporary file beside it shows that it is at work.
  for (int i = 0; i < 12000 && folder_.names().size() < 2; ++i) ::usleep(10000);
  ASSERT_EQ(folder_.names().size(), 2u);
  p.signal(SIGTERM);
  EXPECT_NE(p.finish().exit_code, 0);
  EXPECT_EQ(read_bytes(out), "before");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"kept.f32"});
}

TEST_F(LogitsCommand, DevicesAreWrittenAndNotReplaced) {
  const Args to = {"logits", "-m", fixture_path("tiny-random-F32.gguf"), "--tokens", "-", "-o"};
  Args null = to, full = to;
  null.push_back("/dev/null");
  full.push_back("/dev/full");
  EXPECT_EQ(argon(null, "1 2").exit_code, 0);
  struct stat st;
  ASSERT_EQ(::stat("/dev/null", &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  const Ran r = argon(full, "1 2");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("No space left"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace argon::testing
