#include "tokenizer/text_stream.h"

#include "tokenizer/utf8.h"

namespace skald {

TextStream::TextStream(const Tokenizer& tokenizer, Begin begin)
    : tokenizer_(tokenizer),
      may_drop_(begin == Begin::Text && tokenizer.leading_space() != LeadingSpace::Keep) {}

std::string TextStream::feed(int32_t id) {
  const std::string_view bytes = tokenizer_.piece_bytes(id);
  std::string out;
  if (tokenizer_.joins(id)) {
    join(bytes, out);
  } else {
    out = flush();
    if (dropped_ || has_text_) may_drop_ = false;
    const bool drop = may_drop_ && tokenizer_.starts_word(id);
    dropped_ = drop && tokenizer_.leading_space() == LeadingSpace::DropOne;
    out += bytes.substr(drop ? 1 : 0);
  }
  has_text_ = has_text_ || !out.empty();
  return out;
}

std::string TextStream::flush() {
  std::string out;
  for (size_t i = 0; i < tail_.size(); ++i) out += kReplacementCharacter;
  tail_.clear();
  has_text_ = has_text_ || !out.empty();
  return out;
}

void TextStream::join(std::string_view bytes, std::string& out) {
  tail_ += bytes;
  std::string_view rest = tail_;
  while (!rest.empty() && !utf8_incomplete(rest)) {
    const size_t length = utf8_length(rest);
    out += length > 0 ? rest.substr(0, length) : kReplacementCharacter;
    rest.remove_prefix(length > 0 ? length : 1);
  }
  tail_.erase(0, tail_.size() - rest.size());
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  TextStream stream(*this);
  std::string text;
  for (const int32_t id : ids) text += stream.feed(id);
  return text + stream.flush();
}

}  // namespace skald
