#include "chat/chat.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace argon {
namespace {

constexpr std::string_view kOpenTag = "<think>";
constexpr std::string_view kCloseTag = "</think>";
constexpr std::string_view kTurnStart = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";

// Without white space at the ends. The templates' language also strips the four ASCII separators U+001C to
// U+001F.
std::string_view trim(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const CharClass kind = char_class(c.value);
    if (kind != CharClass::kSpace && kind != CharClass::kNewline && (c.value < 0x1C || c.value > 0x1F)) {
      begin = std::min(begin, at);
      end = at + c.length;
    }
    at += c.length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string_view without_leading_newlines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

struct Turn {
  std::string_view thinking;
  std::string_view answer;
};

// An assistant's content: thinking before the first </think> (after an opening tag, if there is one), answer
// after the last.
Turn split_turn(const Message& message) {
  const std::string_view content = trim(message.content);
  if (!message.thinking.empty()) return {trim(message.thinking), content};
  const size_t first = content.find(kCloseTag);
  if (first == std::string_view::npos) return {{}, content};
  std::string_view thinking = content.substr(0, first);
  if (const size_t open = thinking.rfind(kOpenTag); open != std::string_view::npos) {
    thinking.remove_prefix(open + kOpenTag.size());
  }
  return {trim(thinking),
          without_leading_newlines(content.substr(content.rfind(kCloseTag) + kCloseTag.size()))};
}

class Writer {
 public:
  void scaffold(std::string_view text) { add(text, true); }
  void content(std::string_view text) { add(text, false); }
  void begin_turn(std::string_view role) {
    scaffold(kTurnStart);
    scaffold(role);
  }
  void end_turn() {
    scaffold(kTurnEnd);
    scaffold("\n");
  }
  std::vector<TextSegment> take() { return std::move(segments_); }

 private:
  void add(std::string_view text, bool is_scaffold) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().scaffold != is_scaffold) segments_.push_back({"", is_scaffold});
    segments_.back().text += text;
  }
  std::vector<TextSegment> segments_;
};

bool is_tool_result(std::string_view content) {
  const std::string_view text = trim(content);
  return text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
}

// Index of the last message in which the user asks something: assistant turns after it belong to the answer
// being made.
size_t last_question(std::span<const Message> messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].role == "user" && !is_tool_result(messages[i].content)) return i;
  }
  return messages.size() - 1;
}

// The longest end of `text` that is a beginning of `tag` (shorter than the whole of it).
size_t partial_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

Result<std::vector<TextSegment>> render_chat(std::span<const Message> messages, const ChatOptions& options) {
  if (messages.empty()) return bad_input("the conversation has no messages; give at least one");
  Writer out;
  const size_t question = last_question(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    if (m.role == "system" && i > 0) {
      return bad_input("message " + std::to_string(i + 1) +
                       " has the role system; only the first message may have it");
    }
    if (m.role == "system" || m.role == "user") {
      out.begin_turn(m.role);
      out.scaffold("\n");
      out.content(trim(m.content));
      out.end_turn();
    } else if (m.role == "assistant") {
      const Turn turn = split_turn(m);
      out.begin_turn(m.role);
      out.scaffold("\n");
      if (i > question) {
        out.scaffold("<think>\n");
        out.content(turn.thinking);
        out.scaffold("\n</think>\n\n");
      }
      out.content(turn.answer);
      out.end_turn();
    } else if (m.role == "tool") {
      if (i == 0 || messages[i - 1].role != "tool") out.begin_turn("user");
      out.scaffold("\n<tool_response>\n");
      out.content(trim(m.content));
      out.scaffold("\n</tool_response>");
      if (i + 1 == messages.size() || messages[i + 1].role != "tool") out.end_turn();
    } else {
      return bad_input("message " + std::to_string(i + 1) + " has the role \"" +
                       to_valid_utf8(m.role.substr(0, 40)) +
                       "\"; roles are system, user, assistant and tool");
    }
  }
  if (options.add_generation_prompt) {
    out.begin_turn("assistant");
    out.scaffold(options.thinking ? "\n<think>\n" : "\n<think>\n\n</think>\n\n");
  }
  return out.take();
}

std::string rendered_text(std::span<const TextSegment> segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

bool is_builtin_template(std::string_view template_text) {
  for (const std::string_view mark :
       {kTurnStart, kTurnEnd, kOpenTag, kCloseTag, std::string_view("assistant")}) {
    if (template_text.find(mark) == std::string_view::npos) return false;
  }
  return true;
}

ThinkingSplitter::Parts ThinkingSplitter::push(std::string_view text) {
  Parts parts;
  held_ += text;
  while (step(parts)) {
  }
  return parts;
}

// Takes what is certain out of held_; true if the state has changed, so that more may be.
bool ThinkingSplitter::step(Parts& parts) {
  // Bounds on what is held back, so that each push takes time in its own length.
  constexpr size_t kMaxSpace = 64, kMaxNewlines = 8;
  const auto skip_newlines = [this] {
    held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
  };
  switch (state_) {
    case State::kBegins: {
      const size_t space = std::min(held_.find_first_not_of(" \t\r\n"), held_.size());
      const std::string_view rest = std::string_view(held_).substr(space);
      if (rest.starts_with(kOpenTag)) {
        held_.erase(0, space + kOpenTag.size());
        state_ = State::kThinkingBegins;
        return true;
      }
      if (space <= kMaxSpace && kOpenTag.starts_with(rest)) return false;
      state_ = State::kAnswer;
      return true;
    }
    case State::kThinkingBegins:
      skip_newlines();
      // A model may repeat the opening tag that the prompt has given.
      if (std::string_view(held_).starts_with(kOpenTag)) {
        held_.erase(0, kOpenTag.size());
        return true;
      }
      if (kOpenTag.starts_with(held_)) return false;
      state_ = State::kThinking;
      return true;
    case State::kThinking: {
      const size_t close = held_.find(kCloseTag);
      size_t end = close != std::string::npos ? close : held_.size() - partial_tag(held_, kCloseTag);
      for (size_t n = 0; end > 0 && held_[end - 1] == '\n' && n < kMaxNewlines; ++n) --end;
      parts.thinking.append(held_, 0, end);
      if (close == std::string::npos) {
        held_.erase(0, end);
        return false;
      }
      held_.erase(0, close + kCloseTag.size());
      state_ = State::kAnswerBegins;
      return true;
    }
    case State::kAnswerBegins:
      skip_newlines();
      if (held_.empty()) return false;
      state_ = State::kAnswer;
      return true;
    case State::kAnswer:
      parts.answer += std::exchange(held_, {});
      return false;
  }
  return false;
}

ThinkingSplitter::Parts ThinkingSplitter::finish() {
  Parts parts;
  (in_thinking() ? parts.thinking : parts.answer) = std::exchange(held_, {});
  return parts;
}

}  // namespace argon
