// argon logits: the logits of every token of a sequence, to a file, and the SHA-256 of its bytes.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <memory>

#include "app/cli/commands.h"
#include "app/cli/engine.h"
#include "app/cli/output_file.h"
#include "app/cli/terminal.h"
#include "app/cli/text_input.h"
#include "model/forward.h"
#include "model/state.h"

namespace argon::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's floats are little-endian");

// Logits held at a time are kept near this; by the numeric contract the size of a pass changes no bit.
constexpr int64_t kBufferAim = int64_t{32} << 20;
// Ids have at most 8 digits and a space.
constexpr size_t kMaxIdsBytes = static_cast<size_t>(kMaxContext) * 9;

struct Options {
  EngineOptions engine;
  std::string tokens, out;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    ok_ = EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void add(const void* data, size_t bytes) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, bytes) == 1;
  }
  Result<std::string> hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    ok_ = ok_ && EVP_DigestFinal_ex(context_.get(), digest, &n) == 1;
    if (!ok_) return internal_error("libcrypto cannot compute SHA-256");
    return fmt::format("{:02x}", fmt::join(digest, digest + n, ""));
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  bool ok_ = false;
};

// The output may not be one of the files that the command reads.
Status check_apart(const std::string& out, const std::string& input, const char* option) {
  struct stat a, b;
  if (::stat(out.c_str(), &a) != 0 || ::stat(input.c_str(), &b) != 0 || !S_ISREG(a.st_mode)) return {};
  if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) return {};
  return bad_input(fmt::format("-o is {}, which {} reads: wanted another file", out, option));
}

Status run(const Options& o) {
  ARGON_RETURN_IF_ERROR(check(o.engine));
  ARGON_ASSIGN_OR_RETURN(const std::string text, read_file(o.tokens, "--tokens", kMaxIdsBytes));
  ARGON_RETURN_IF_ERROR(check_apart(o.out, o.tokens, "--tokens"));
  if (!o.engine.bundled()) ARGON_RETURN_IF_ERROR(check_apart(o.out, o.engine.model, "-m"));
  catch_interrupts();
  ARGON_ASSIGN_OR_RETURN(const auto engine, load_engine(o.engine));
  const ModelConfig& c = engine->model->config();
  auto parsed = parse_ids(text, c.V);
  if (!parsed.ok()) return bad_input(fmt::format("--tokens {}: {}", o.tokens, parsed.status().message()));
  const std::span<const int32_t> ids = *parsed;
  const int64_t T = static_cast<int64_t>(ids.size());
  const int64_t context = o.engine.context.value_or(c.context_length);
  if (T > context) {
    return bad_input(
        fmt::format("there are {} tokens, the context holds {}: shorten it or raise -c", T, context));
  }
  const int64_t fits = std::max<int64_t>(16, kBufferAim / (c.V * static_cast<int64_t>(sizeof(float))));
  const int64_t pass =
      std::min(T, o.engine.pass.value_or(std::min(Session::default_pass(c, *engine->backend), fits)));
  ARGON_ASSIGN_OR_RETURN(const auto forward,
                         Forward::create(c, engine->model->weights(), *engine->backend, pass, T,
                                         SequenceState::bytes(c, T, o.engine.kv_type())));
  ARGON_ASSIGN_OR_RETURN(const auto state, SequenceState::create(c, *engine->backend, T, o.engine.kv_type()));
  catch_termination();  // a temporary file is there from here on
  ARGON_ASSIGN_OR_RETURN(const auto file, OutputFile::create(o.out));

  std::vector<float> logits(static_cast<size_t>(pass * c.V));
  ReadOptions read;
  read.logits = LogitsFor::kAll;
  read.out = logits.data();
  Sha256 sha;
  ProgressBar bar;
  for (int64_t at = 0; at < T; at += pass) {
    if (interrupted()) return Status(Code::kCancelled, "interrupted: nothing was written");
    bar.show(static_cast<double>(at) / static_cast<double>(T), fmt::format("{} of {} tokens", at, T));
    const int64_t n = std::min(pass, T - at);
    ARGON_RETURN_IF_ERROR(
        forward->read(*state, ids.subspan(static_cast<size_t>(at), static_cast<size_t>(n)), read));
    const size_t bytes = static_cast<size_t>(n * c.V) * sizeof(float);
    ARGON_RETURN_IF_ERROR(file->write(logits.data(), bytes));
    sha.add(logits.data(), bytes);
  }
  bar.clear();
  ARGON_ASSIGN_OR_RETURN(const std::string hex, sha.hex());
  ARGON_RETURN_IF_ERROR(file->commit());
  Output out;
  out.write(hex + "\n");
  return out.status();
}

}  // namespace

void add_logits(CLI::App& app, Chosen& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("logits", "Write the logits of every token of a sequence, print their SHA-256");
  add_engine_options(*c, o->engine, true);
  c->add_option("--tokens", o->tokens, "Token ids, separated by white space; - is standard input")
      ->type_name("FILE")
      ->required();
  c->add_option("-o,--out", o->out, "Where the logits go: little-endian float32 [tokens][vocabulary]")
      ->type_name("FILE")
      ->required();
  c->callback([o, &chosen] { chosen = [o] { return run(*o); }; });
}

}  // namespace argon::cli
