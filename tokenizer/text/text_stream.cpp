#include "tokenizer/text/text_stream.h"

#include <optional>

#include "tokenizer/text/utf8.h"

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
  const bool whole = tokenizer_.broken_character() == BrokenCharacter::Whole;
  const size_t count = whole ? !tail_.empty() : tail_.size();
  for (size_t i = 0; i < count; ++i) out += kReplacementCharacter;
  tail_.clear();
  has_text_ = has_text_ || !out.empty();
  return out;
}

void TextStream::join(std::string_view bytes, std::string& out) {
  tail_ += bytes;
  const bool whole = tokenizer_.broken_character() == BrokenCharacter::Whole;
  std::string_view rest = tail_;
  while (!rest.empty() && !utf8_incomplete(rest)) {
    const size_t length = utf8_length(rest);
    out += length > 0 ? rest.substr(0, length) : kReplacementCharacter;
    const size_t broken = whole ? utf8_broken_length(rest) : 1;
    rest.remove_prefix(length > 0 ? length : broken);
  }
  tail_.erase(0, tail_.size() - rest.size());
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_control) const {
  std::optional<TextStream> stream(*this);
  std::string text;
  for (const int32_t id : ids) {
    text += stream->feed(id);
    if (!show_control || !is_control(id)) continue;
    text += stream->flush();
    text += piece(id);
    stream.emplace(*this, TextStream::Begin::Continuation);
  }
  return text + stream->flush();
}

}  // namespace skald
