#include "runtime/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "runtime/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace argon {
namespace {

// Working memory that a pass may take by itself: a 32nd of the memory, within these bounds, the upper one for
// passes of 512 tokens.
constexpr uint64_t kLeastScratch = uint64_t{48} << 20, kMostScratch = uint64_t{512} << 20;
// A model that repeats one token this often will not stop by itself.
constexpr int kMaxRepeats = 256;
// A template may word the end of a prompt (the opening of the answer) otherwise once the answer is history,
// so the checkpoint stands this many tokens before the end.
constexpr int64_t kCheckpointBefore = 16;

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

int64_t Session::default_pass(const ModelConfig& config, const ops::Backend& backend) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t memory = backend.memory_size();
  if (memory == 0 && pages > 0 && page > 0)
    memory = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
  return default_pass(config, backend.best_pass(), memory);
}

int64_t Session::default_pass(const ModelConfig& config, int64_t best_pass, uint64_t memory) {
  int64_t pass = best_pass;
  const uint64_t aim = std::clamp(memory / 32, kLeastScratch,
                                  kMostScratch * static_cast<uint64_t>(std::max<int64_t>(pass / 512, 1)));
  while (pass > 16 && Forward::scratch_bytes(config, pass) > aim) pass /= 2;
  return pass;
}

Result<std::unique_ptr<Session>> Session::create(const Model& model, ops::Backend& backend,
                                                 const SessionOptions& options) {
  std::unique_ptr<Session> s(new Session(model));
  const ModelConfig& c = model.config();
  const int64_t context = options.context > 0 ? options.context : c.context_length;
  const int64_t pass = options.max_pass > 0 ? options.max_pass : std::min(default_pass(c, backend), context);
  ARGON_ASSIGN_OR_RETURN(s->forward_, Forward::create(c, model.weights(), backend, pass, context,
                                                      SequenceState::bytes(c, context, options.kv_type)));
  ARGON_ASSIGN_OR_RETURN(s->state_, SequenceState::create(c, backend, context, options.kv_type));
  return s;
}

Status Session::read_prompt(std::span<const int32_t> prompt, NextToken& next, Generated& g,
                            const std::function<bool(int64_t, int64_t)>& progress) {
  if (prompt.empty()) return bad_input("the prompt is empty: wanted at least one token");
  const int64_t n = static_cast<int64_t>(prompt.size());
  if (n > state_->capacity()) {
    return bad_input("the prompt has " + std::to_string(n) + " tokens, the context holds " +
                     std::to_string(state_->capacity()) + ": shorten it or raise -c");
  }
  const auto held = state_->tokens();
  const auto common =
      std::mismatch(prompt.begin(), prompt.end(), held.begin(), held.end()).first - prompt.begin();
  // The last token is read again even when held: what comes after it is wanted.
  const int64_t from = state_->rewind(std::min<int64_t>(common, n - 1));
  g.prompt_tokens = n;
  g.prompt_read = n - from;

  ReadOptions read;
  const auto part = [&](int64_t begin, int64_t end, LogitsFor logits) -> Status {
    if (begin >= end) return {};
    read.logits = logits;
    read.next = logits == LogitsFor::kLast ? &next : nullptr;
    if (progress)
      read.progress = [&, begin](int64_t done, int64_t) { return progress(begin - from + done, n - from); };
    return forward_->read(*state_,
                          prompt.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), read);
  };
  const int64_t mark = n - kCheckpointBefore;
  if (mark > from) {
    ARGON_RETURN_IF_ERROR(part(from, mark, LogitsFor::kNone));
    state_->checkpoint();
  }
  return part(std::max(from, mark), n, LogitsFor::kLast);
}

Result<Generated> Session::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                    const Text& text, const std::function<bool(int64_t, int64_t)>& progress) {
  ARGON_RETURN_IF_ERROR(ops::check(options.sampling));
  ARGON_RETURN_IF_ERROR(model_.file().still_whole());
  Generated g;
  auto start = std::chrono::steady_clock::now();
  NextToken next;
  next.options = options.sampling;
  if (Status s = read_prompt(prompt, next, g, progress); !s.ok()) {
    if (s.code() == Code::kNumeric) state_->reset();
    return s;
  }
  g.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();

  StreamDecoder decoder(model_.tokenizer());
  StopStrings stops(options.stop);
  const auto show = [&](const std::string& piece) { return !text || text(piece); };
  int repeats = 0;
  g.reason = FinishReason::kLength;
  while (options.max_tokens < 0 || static_cast<int64_t>(g.tokens.size()) < options.max_tokens) {
    const int32_t token = next.token;
    if (model_.tokenizer().is_end(token)) {
      g.reason = FinishReason::kStop;
      break;
    }
    repeats = !g.tokens.empty() && g.tokens.back() == token ? repeats + 1 : 1;
    g.tokens.push_back(token);
    if (!show(stops.push(decoder.push(token)))) {
      g.reason = FinishReason::kCancelled;
      break;
    }
    if (stops.stopped()) {
      g.reason = FinishReason::kStop;
      break;
    }
    if (repeats == kMaxRepeats || state_->position() == state_->capacity()) break;
    if (options.max_tokens >= 0 && static_cast<int64_t>(g.tokens.size()) == options.max_tokens) break;
    ReadOptions read;
    read.next = &next;
    if (Status s = forward_->read(*state_, std::span(&token, 1), read); !s.ok()) {
      if (s.code() == Code::kNumeric) state_->reset();
      return s;
    }
  }
  if (!stops.stopped() && g.reason != FinishReason::kCancelled) {
    show(stops.push(decoder.finish()));
    show(stops.finish());
  }
  g.generate_seconds = seconds_since(start);
  return g;
}

}  // namespace argon
