#include "app/generate/text_translation.h"

#include <algorithm>
#include <utility>

#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// The bytes at the end that are the beginning of a character.
size_t incomplete_bytes(std::string_view text) {
  for (size_t bytes = std::min<size_t>(3, text.size()); bytes > 0; --bytes) {
    if (utf8_incomplete(text.substr(text.size() - bytes))) return bytes;
  }
  return 0;
}

// The control token of another vocabulary with the same role or name; -1: it has none.
int32_t same_control(int32_t id, const Tokenizer& from, const Tokenizer& to) {
  if (id == from.special().bos && to.special().bos >= 0) return to.special().bos;
  if (id == from.special().eos && to.special().eos >= 0) return to.special().eos;
  const int32_t found = to.find(from.piece(id));
  return found >= 0 && to.is_control(found) ? found : -1;
}

void append_encoded(const Tokenizer& tokenizer, std::string_view text, bool starts_text,
                    std::vector<int32_t>& ids) {
  if (text.empty()) return;
  EncodeOptions options;
  options.add_bos = options.add_eos = false;
  options.starts_text = starts_text;
  const std::vector<int32_t> encoded = tokenizer.encode(text, options);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
}

bool starts_with_space(std::string_view bytes) {
  return bytes.starts_with(' ') || bytes.starts_with('\n');
}

}  // namespace

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  const int32_t both = std::min(a.vocab_size(), b.vocab_size());
  const auto has = [](const Tokenizer& tokenizer, int32_t id) {
    return tokenizer.kind(id) != TokenKind::Unused;
  };
  for (int32_t id = 0; id < both; ++id) {
    if (has(a, id) && has(b, id) && a.piece_bytes(id) != b.piece_bytes(id)) return false;
  }
  return true;
}

TextTranslation::TextTranslation(const Tokenizer& text, std::shared_ptr<const Tokenizer> draft)
    : text_(text), draft_(std::move(draft)) {}

std::vector<int32_t> TextTranslation::to_draft(std::span<const int32_t> tokens) {
  const size_t both = std::min(text_ids_.size(), tokens.size());
  const auto common = std::mismatch(
      tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(both), text_ids_.begin());
  if (static_cast<size_t>(common.first - tokens.begin()) < kept_text_) kept_text_ = kept_draft_ = 0;
  text_ids_.assign(tokens.begin(), tokens.end());
  draft_ids_.resize(kept_draft_);

  bool starts_text = kept_text_ == 0;
  if (starts_text && draft_->special().add_bos) draft_ids_.push_back(draft_->special().bos);
  std::string run;  // text since the last control token
  const auto end_run = [&] {
    if (run.empty()) return;
    append_encoded(*draft_, run, starts_text, draft_ids_);
    starts_text = false;
    run.clear();
  };
  for (const int32_t id : tokens.subspan(kept_text_)) {
    if (text_.is_control(id)) {
      end_run();
      const int32_t same = same_control(id, text_, *draft_);
      const bool second_bos =
          same == draft_->special().bos && draft_ids_.size() == 1 && draft_ids_.front() == same;
      if (same >= 0 && !second_bos) draft_ids_.push_back(same);
      continue;
    }
    std::string_view bytes = text_.piece_bytes(id);
    // The space before a text is none of the text. The draft model's tokenizer adds its own.
    if (starts_text && run.empty() && text_.leading_space() != LeadingSpace::Keep &&
        text_.starts_word(id)) {
      bytes.remove_prefix(1);
    }
    run += bytes;
  }
  if (incomplete_bytes(run) > 0) return {};
  end_run();
  std::vector<int32_t> translated = draft_ids_;
  cut();
  return translated;
}

// Moves the cut towards the end, if it has become far. Borders are found from the end, because the
// beginnings of both lists may differ by a space and by control tokens.
void TextTranslation::cut() {
  constexpr size_t kMostAnew = 128, kLeastAnew = 16;  // tokens behind the cut
  if (text_ids_.size() - kept_text_ <= kMostAnew) return;
  size_t text = text_ids_.size(), draft = draft_ids_.size();
  size_t text_bytes = 0, draft_bytes = 0;  // behind the two
  size_t best_text = 0, best_draft = 0;
  while (text > kept_text_ && draft > kept_draft_) {
    const bool text_behind = text_bytes <= draft_bytes;
    if (text_behind) {
      text_bytes += text_.piece_bytes(text_ids_[--text]).size();
    } else {
      draft_bytes += draft_->piece_bytes(draft_ids_[--draft]).size();
    }
    if (text_bytes != draft_bytes || text_ids_.size() - text < kLeastAnew) continue;
    if (text == kept_text_ || draft == kept_draft_ || draft == draft_ids_.size()) continue;
    const std::string_view next = text_.piece_bytes(text_ids_[text]);
    if (next.empty() || draft_->piece_bytes(draft_ids_[draft]).empty()) continue;
    const bool spaced = starts_with_space(next);
    if (spaced || best_text == 0) best_text = text, best_draft = draft;
    if (spaced) break;
  }
  if (best_text == 0) return;
  kept_text_ = best_text;
  kept_draft_ = best_draft;
}

std::vector<int32_t> TextTranslation::from_draft(std::span<const int32_t> guesses) {
  std::vector<int32_t> translated;
  std::string run;
  const auto end_run = [&] {
    run.resize(run.size() - incomplete_bytes(run));
    append_encoded(text_, run, false, translated);
    run.clear();
  };
  for (const int32_t id : guesses) {
    if (!draft_->is_control(id)) {
      run += draft_->piece_bytes(id);
      continue;
    }
    end_run();
    const int32_t same = same_control(id, *draft_, text_);
    if (same < 0) return translated;
    translated.push_back(same);
  }
  end_run();
  return translated;
}

}  // namespace skald
