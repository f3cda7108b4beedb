// Token ids, one by one, to text that can be printed at once: never half a character. An incomplete
// tail (at most 3 bytes) waits for the next token; bytes that no token can complete become U+FFFD
// (Tokenizer::broken_character()). feed() of all ids and flush() together give exactly
// Tokenizer::decode(). Borrows the tokenizer, which must outlive it. One stream for one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/text/tokenizer.h"

namespace skald {

class TextStream {
 public:
  // A stream that starts a text drops the space that the tokenizer put before it; one that
  // continues (a completion after its prompt) keeps it: there it separates two words.
  enum class Begin { Text, Continuation };

  explicit TextStream(const Tokenizer& tokenizer, Begin begin = Begin::Text);

  std::string feed(int32_t id);
  std::string flush();  // what is still held back, as U+FFFD; call it once, at the end

 private:
  void join(std::string_view bytes, std::string& out);

  const Tokenizer& tokenizer_;
  std::string tail_;       // the beginning of a character, which lacks its last bytes
  bool may_drop_;          // a space at the start of the next token is the text's prefix
  bool dropped_ = false;   // the one prefix that LeadingSpace::DropOne allows is gone
  bool has_text_ = false;  // something was put out
};

}  // namespace skald
