// The chat format that is built in: ChatML as the Qwen family uses it, with thinking tags. Every turn is
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n
// and the prompt for an answer is
//   <|im_start|>assistant\n<think>\n                      with thinking
//   <|im_start|>assistant\n<think>\n\n</think>\n\n        without
// Rules, as in the family's published templates (Qwen3.5):
// - content is given without white space at its ends;
// - a system message may only come first; there is none unless given;
// - an assistant turn before the last user message loses its thinking; one after it keeps it, as
//   <think>\nTHINKING\n</think>\n\nANSWER (the thinking may be empty);
// - tool results that follow each other are one user turn, each as
// \n<tool_response>\nCONTENT\n</tool_response>.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace argon {

struct Message {
  std::string role;           // system, user, assistant or tool
  std::string content;        // an assistant's may begin with its thinking: <think> ... </think>
  std::string thinking = {};  // of an assistant, if it is kept apart; then content is taken as it is
};

struct ChatOptions {
  bool thinking = false;  // let the model think first; only the generation prompt depends on it
  bool add_generation_prompt = true;
};

// The prompt as segments for Tokenizer::encode: tags and role names are scaffold, what the messages hold is
// not. kBadInput: no message, an unknown role, a system message that is not the first.
Result<std::vector<TextSegment>> render_chat(std::span<const Message> messages, const ChatOptions& options);

// The segments' texts, one after the other.
std::string rendered_text(std::span<const TextSegment> segments);

// Whether a model file's chat template belongs to the format above, so that no warning is due: it names
// <|im_start|>, <|im_end|>, <think>, </think> and the role "assistant". The text is not evaluated: templates
// differ in wording, tools and images between models of the family, but one that uses all five marks turns
// and thinking as above.
bool is_builtin_template(std::string_view template_text);

// Separates what the model writes into thinking and answer, as it comes.
// Thinking begins with the text if the prompt has opened it, or with a <think> before which there is only
// white space; it ends with the first </think>. After that, and where no thinking began, tags are ordinary
// text. Newlines next to the tags belong to neither part. Tags may come in any number of parts: what may yet
// be one is held back.
class ThinkingSplitter {
 public:
  struct Parts {
    std::string thinking;
    std::string answer;
  };

  // `thinking_open`: the prompt ended inside the thinking (ChatOptions::thinking).
  explicit ThinkingSplitter(bool thinking_open)
      : state_(thinking_open ? State::kThinkingBegins : State::kBegins) {}

  // What `text` adds to either part.
  Parts push(std::string_view text);
  // What was held back; call it after the last text.
  Parts finish();
  // True until the answer has begun.
  bool in_thinking() const { return state_ == State::kThinkingBegins || state_ == State::kThinking; }

 private:
  enum class State : uint8_t { kBegins, kThinkingBegins, kThinking, kAnswerBegins, kAnswer };
  bool step(Parts& parts);

  State state_;
  std::string held_;
};

}  // namespace argon
