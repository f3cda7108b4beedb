// Separates a reasoning model's thinking from its answer, in a text that arrives in pieces. The
// thinking stands at the beginning, between tags such as <think> and </think>, and includes the
// tags. The parts in their order are the whole text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct ThinkingPart {
  bool thinking;
  std::string text;
};

class ThinkingSplitter {
 public:
  // `prompt`: the text that the answer continues. Some templates end with the opening tag.
  explicit ThinkingSplitter(std::string_view prompt = {});

  // The parts that are certain by now. A possible beginning of a tag waits for more text.
  std::vector<ThinkingPart> feed(std::string_view piece);
  std::vector<ThinkingPart> flush();

 private:
  enum class State { Begin, Thinking, Answer };

  bool step(std::vector<ThinkingPart>& parts);

  State state_ = State::Begin;
  std::string_view end_tag_;
  std::string pending_text_;
};

constexpr std::string_view kThinkingSpace = " \t\r\n";

struct ThinkingTags {
  std::string_view begin, end;
};
// The tags that a prompt leaves open at its end, and the first ones that a template has.
std::optional<ThinkingTags> open_tags(std::string_view prompt);
std::optional<ThinkingTags> tags_in(std::string_view chat_template);

// A thinking part as a whole, without its tags and the white space beside them.
std::string_view without_tags(std::string_view thinking);

// Some models have control tokens for the tags: whether a token's piece is one of them.
enum class ThinkingTag { None, Begin, End };
ThinkingTag thinking_tag(std::string_view piece);

}  // namespace skald
