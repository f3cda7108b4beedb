// Tells a reasoning model's thinking from its answer, in a text that arrives in pieces. Thinking is
// what stands between tags such as <think> and </think> at the beginning of an answer; its tags are
// part of it. What the parts hold is, put together, the text.
#pragma once

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
  // `prompt` is what the answer goes on from: some templates open the thinking themselves.
  explicit ThinkingSplitter(std::string_view prompt = {});

  // What can be told by now; the beginning of a tag is held back.
  std::vector<ThinkingPart> feed(std::string_view piece);
  std::vector<ThinkingPart> flush();

 private:
  enum class State { Begin, Thinking, Answer };

  bool step(std::vector<ThinkingPart>& parts);

  State state_ = State::Begin;
  std::string_view end_tag_;
  std::string held_;
};

// What a token's piece is, of those: some models have control tokens for them.
enum class ThinkingTag { None, Begin, End };
ThinkingTag thinking_tag(std::string_view piece);

}  // namespace skald
