// Writing one answer: to standard output as it comes, the thinking to standard error.
#pragma once

#include <span>
#include <string>

#include "app/cli/options.h"
#include "app/cli/terminal.h"
#include "runtime/session.h"

namespace argon::cli {

struct AnswerStyle {
  bool split_thinking = true;  // false: everything is the answer
  bool thinking_open = false;  // the prompt ended inside the thinking
  bool silent = false;         // collect only
};

struct Answer {
  Generated generated;
  std::string text, thinking;
};

GenerateOptions generate_options(const AnswerOptions& o, const ops::SampleOptions& sampling);

// Ctrl-C ends the answer with FinishReason::kCancelled, as does a reader of standard output that has gone;
// while the prompt is still being read it gives a kCancelled status.
Result<Answer> write_answer(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                            const AnswerStyle& style, Output& out);

// "prompt: 9 tokens, 812.1 tokens/s | answer: ... | stop", for standard error.
std::string stats_line(const Generated& g, const ops::SampleOptions& sampling);
std::string_view reason_name(FinishReason reason);
// 0 when there was nothing to measure.
double per_second(int64_t tokens, double seconds);

}  // namespace argon::cli
