#include "tokenizer/chat/chat_encode.h"

#include <algorithm>

namespace skald {
namespace {

using jinja::Dict;
using jinja::Value;

// Marks put around a control token's name in a message between rendering and encoding: two
// private-use characters that texts should not contain. They are removed from messages that contain
// them.
constexpr std::string_view kBegin = "\U000f0000", kEnd = "\U000f0001";

class Marker {
 public:
  explicit Marker(const Tokenizer& tokenizer) {
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.is_control(id) && !tokenizer.piece(id).empty()) {
        texts_.push_back(tokenizer.piece(id));
      }
    }
    // Longest first, so that the longest match is found.
    std::sort(texts_.begin(), texts_.end(),
              [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
    for (std::string_view text : texts_) first_[static_cast<unsigned char>(text[0])] = true;
    first_[static_cast<unsigned char>(kBegin[0])] = true;
  }

  // Returns the same value with every control token's name marked.
  Value mark(const Value& value) const {
    if (const jinja::Text* text = value.as_text()) {
      std::string marked = mark_text(text->bytes);
      return marked == text->bytes ? value : Value::text(std::move(marked));
    }
    if (const Dict* dict = value.as_dict()) {
      Dict marked;
      for (const Dict::Entry& entry : dict->entries()) marked.set(entry.key, mark(entry.value));
      return Value::dict(std::move(marked));
    }
    if (const jinja::Sequence* list = value.as_sequence()) {
      std::vector<Value> items;
      for (const Value& item : list->items) items.push_back(mark(item));
      return Value::list(std::move(items));
    }
    return value;
  }

 private:
  std::string mark_text(std::string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const std::string_view rest = text.substr(at);
      if (!first_[static_cast<unsigned char>(rest[0])]) {
        out += rest[0];
        ++at;
        continue;
      }
      if (rest.starts_with(kBegin) || rest.starts_with(kEnd)) {
        at += kBegin.size();
        continue;
      }
      const auto found = std::find_if(texts_.begin(), texts_.end(), [&](std::string_view control) {
        return rest.starts_with(control);
      });
      if (found == texts_.end()) {
        out += rest[0];
        ++at;
      } else {
        out += kBegin;
        out += *found;
        out += kEnd;
        at += found->size();
      }
    }
    return out;
  }

  std::vector<std::string_view> texts_;
  bool first_[256] = {};  // first bytes of control tokens' names
};

// Collects the ids of the parts of one prompt.
class Pieces {
 public:
  explicit Pieces(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(std::string_view text, bool parse_special) {
    if (text.empty()) return;
    EncodeOptions options;
    options.add_bos = options.add_eos = false;
    options.parse_special = parse_special;
    options.starts_text = !text_started_;
    text_started_ = true;
    const std::vector<int32_t> more = tokenizer_.encode(text, options);
    ids_.insert(ids_.end(), more.begin(), more.end());
  }

  std::vector<int32_t> finish() {
    const SpecialTokens& special = tokenizer_.special();
    const bool begins = !ids_.empty() && ids_[0] == special.bos;
    if (special.add_bos && !begins) ids_.insert(ids_.begin(), special.bos);
    return std::move(ids_);
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  bool text_started_ = false;
};

}  // namespace

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 const Conversation& conversation,
                                 const jinja::RenderOptions& options) {
  const Marker marker(tokenizer);
  Conversation marked = conversation;
  marked.messages = marker.mark(conversation.messages);
  marked.tools = marker.mark(conversation.tools);
  marked.more = {};
  for (const Dict::Entry& entry : conversation.more.entries()) {
    marked.more.set(entry.key, marker.mark(entry.value));
  }
  const std::string prompt = chat.render(marked, options);
  Pieces pieces(tokenizer);
  std::string_view rest = prompt;
  bool text_of_message = false;  // between marks
  while (!rest.empty()) {
    const size_t begin = rest.find(kBegin), end = rest.find(kEnd);
    const size_t at = std::min({begin, end, rest.size()});
    pieces.add(rest.substr(0, at), !text_of_message);
    if (at == rest.size()) break;
    // A template may have split a marked text, so a single mark only separates two texts.
    const size_t next_end = rest.find(kEnd, at + 1), next_begin = rest.find(kBegin, at + 1);
    text_of_message = at == begin && next_end < next_begin;
    rest.remove_prefix(at + kBegin.size());
  }
  return pieces.finish();
}

}  // namespace skald
