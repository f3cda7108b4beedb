// Converts token ids one by one to text that can be printed at once: never half a character. An
// incomplete character at the end (at most 3 bytes) is held back until the next token. Bytes that
// no token can complete become U+FFFD (Tokenizer::broken_character()). All results of feed() and of
// a final flush() together equal Tokenizer::decode(). Borrows the tokenizer, which must outlive it.
// One stream is for one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/text/tokenizer.h"

namespace skald {

class TextStream {
 public:
  // Text: the tokenizer's space before the text is dropped. Continuation: the text continues
  // another one (a completion after its prompt), and the space is kept because it separates two
  // words.
  enum class Begin { Text, Continuation };

  explicit TextStream(const Tokenizer& tokenizer, Begin begin = Begin::Text);

  std::string feed(int32_t id);
  std::string flush();  // returns the bytes held back, as U+FFFD; call once at the end

 private:
  void join(std::string_view bytes, std::string& out);

  const Tokenizer& tokenizer_;
  std::string tail_;       // the first bytes of an incomplete character
  bool may_drop_;          // a space at the start of the next token is the text's prefix
  bool dropped_ = false;   // LeadingSpace::DropOne: the one space was dropped
  bool has_text_ = false;  // some text was returned
};

}  // namespace skald
