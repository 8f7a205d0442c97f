#include "app/cli/answer.h"

#include <fmt/format.h>

#include "chat/chat.h"

namespace argon::cli {
namespace {

// The thinking on standard error, dim where that is a terminal.
class ThinkingPrinter {
 public:
  void print(std::string_view text) {
    if (text.empty()) return;
    if (!open_ && terminal_) say("\x1b[2m");
    open_ = true;
    say(text);
  }
  void end() {
    if (open_) say(terminal_ ? "\x1b[0m\n\n" : "\n");
    open_ = false;
  }

 private:
  bool open_ = false;
  bool terminal_ = stderr_is_terminal();
};

}  // namespace

GenerateOptions generate_options(const AnswerOptions& o, const ops::SampleOptions& sampling) {
  GenerateOptions g;
  g.sampling = sampling;
  g.max_tokens = o.max_tokens.value_or(-1);
  g.stop = o.stop;
  return g;
}

Result<Answer> write_answer(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                            const AnswerStyle& style, Output& out) {
  Answer answer;
  ThinkingSplitter splitter(style.thinking_open);
  ThinkingPrinter thinking;
  ProgressBar bar;
  const auto take = [&](const ThinkingSplitter::Parts& parts) {
    answer.thinking += parts.thinking;
    answer.text += parts.answer;
    if (style.silent) return true;
    thinking.print(parts.thinking);
    if (!parts.answer.empty()) thinking.end();
    return out.write(parts.answer);
  };
  const auto text = [&](std::string_view piece) {
    bar.clear();
    const bool more = style.split_thinking ? take(splitter.push(piece)) : take({"", std::string(piece)});
    return more && !interrupted();
  };
  const auto progress = [&](int64_t done, int64_t total) {
    bar.show(static_cast<double>(done) / static_cast<double>(total),
             fmt::format("reading the prompt: {} of {} tokens", done, total));
    return !interrupted();
  };
  auto generated = session.generate(prompt, options, text, progress);
  bar.clear();
  if (style.split_thinking) take(splitter.finish());
  thinking.end();
  if (!style.silent && !out.ends_in_newline()) out.write("\n");
  if (!generated.ok()) return generated.status();
  answer.generated = *std::move(generated);
  return answer;
}

std::string_view reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

std::string stats_line(const Generated& g, const ops::SampleOptions& sampling) {
  std::string line = fmt::format("prompt: {} tokens", g.prompt_tokens);
  if (g.prompt_read != g.prompt_tokens) line += fmt::format(" ({} new)", g.prompt_read);
  const int64_t written = static_cast<int64_t>(g.tokens.size());
  line += fmt::format(", {:.1f} tokens/s | answer: {} tokens, {:.1f} tokens/s | {}",
                      per_second(g.prompt_read, g.prompt_seconds), written,
                      per_second(written, g.generate_seconds), reason_name(g.reason));
  if (sampling.temperature > 0) line += fmt::format(" | seed {}", sampling.seed);
  return line + "\n";
}

}  // namespace argon::cli
