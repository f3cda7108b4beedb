// Translates between the tokens of two vocabularies by their text, for a draft model whose tokens
// are others than those of the model that it guesses for (engine/speculate/draft_texts.h).
//
// Only the end of a text is tokenized anew: both lists of tokens are cut where both have a border,
// and what lies before the cut stays. So the draft model's tokens may differ from those of the
// whole text, which makes its guesses worse at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/speculate/draft_texts.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// True if each token that both vocabularies have has the same bytes in both. One vocabulary may be
// larger.
bool same_tokens(const Tokenizer& a, const Tokenizer& b);

class TextTranslation final : public Translation {
 public:
  // `text`, the tokenizer of the text, must outlive the translation.
  TextTranslation(const Tokenizer& text, std::shared_ptr<const Tokenizer> draft);

  std::vector<int32_t> to_draft(std::span<const int32_t> tokens) override;
  std::vector<int32_t> from_draft(std::span<const int32_t> guesses) override;

  // How many tokens of the text are before the cut. For tests.
  size_t kept() const { return kept_text_; }

 private:
  void cut();

  const Tokenizer& text_;
  std::shared_ptr<const Tokenizer> draft_;
  std::vector<int32_t> text_ids_, draft_ids_;  // the last text, and its translation
  // The first tokens of both, which say the same, and are not translated again.
  size_t kept_text_ = 0, kept_draft_ = 0;
};

}  // namespace skald
