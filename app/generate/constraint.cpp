#include "app/generate/constraint.h"

#include <algorithm>

#include "app/generate/channel_reader.h"
#include "engine/base/error.h"

namespace skald {
namespace {

class FinalConstraint final : public TokenFilter {
 public:
  FinalConstraint(Constraint constraint, const ChannelReader& channels)
      : constraint_(std::move(constraint)), channels_(channels) {}

  std::span<const uint64_t> allowed() override {
    return in_final() ? constraint_.allowed() : std::span<const uint64_t>();
  }
  void accept(int32_t token) override {
    if (in_final()) {
      constraint_.accept(token);
    } else {
      channels_.feed(token);
    }
  }
  bool finished() const override { return in_final() && constraint_.finished(); }

 private:
  bool in_final() const {
    return channels_.in_message() && channels_.kind() == ChannelReader::Kind::Answer;
  }

  Constraint constraint_;
  ChannelReader channels_;
};

}  // namespace

std::shared_ptr<const grammar::Vocabulary> constraint_vocabulary(
    const Tokenizer& tokenizer, std::span<const int32_t> stop_ids) {
  std::vector<std::string_view> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const TokenKind kind = tokenizer.kind(id);
    const bool text =
        kind == TokenKind::Normal || kind == TokenKind::UserDefined || kind == TokenKind::Byte;
    if (text) bytes[static_cast<size_t>(id)] = tokenizer.piece_bytes(id);
  }
  return std::make_shared<grammar::Vocabulary>(bytes, stop_ids);
}

std::shared_ptr<grammar::Masks> constraint_masks(
    const grammar::Rules& rules, std::shared_ptr<const grammar::Vocabulary> vocabulary) {
  return std::make_shared<grammar::Masks>(std::make_shared<grammar::Automaton>(rules),
                                          std::move(vocabulary));
}

Constraint::Constraint(std::shared_ptr<grammar::Masks> masks, const Tokenizer& tokenizer,
                       TextStream::Begin begin)
    : masks_(std::move(masks)),
      tokenizer_(&tokenizer),
      matcher_(masks_),
      drops_space_(begin == TextStream::Begin::Text &&
                   tokenizer.leading_space() != LeadingSpace::Keep) {}

std::span<const uint64_t> Constraint::allowed() {
  const std::span<const uint64_t> mask = drops_space_ ? first_mask() : matcher_.mask();
  if (std::all_of(mask.begin(), mask.end(), [](uint64_t word) { return word == 0; })) {
    fail(Exit::Failed, "the grammar asks for a character here that no token of this model writes");
  }
  return mask;
}

// A token that is nothing but the dropped space is not allowed: the text would not grow.
std::span<const uint64_t> Constraint::first_mask() {
  const std::span<const uint64_t> mask = matcher_.mask();
  first_mask_.assign(mask.begin(), mask.end());
  const grammar::Vocabulary& vocabulary = masks_->vocabulary();
  for (int32_t id = 0; static_cast<size_t>(id) < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (bytes.empty() || vocabulary.is_end(id) || !tokenizer_->starts_word(id)) continue;
    grammar::Matcher trial = matcher_;
    const uint64_t bit = uint64_t{1} << (id % 64);
    uint64_t& word = first_mask_[static_cast<size_t>(id) / 64];
    word = bytes.size() > 1 && trial.accept(bytes.substr(1)) ? word | bit : word & ~bit;
  }
  return first_mask_;
}

void Constraint::accept(int32_t token) {
  const grammar::Vocabulary& vocabulary = masks_->vocabulary();
  if (vocabulary.is_end(token)) return;
  const bool drop = drops_space_ && tokenizer_->starts_word(token);
  drops_space_ = false;
  check(matcher_.accept(vocabulary.bytes(token).substr(drop ? 1 : 0)),
        "a token that the grammar allows");
}

std::unique_ptr<TokenFilter> answer_constraint(std::shared_ptr<grammar::Masks> masks,
                                               const Tokenizer& tokenizer, TextStream::Begin begin,
                                               std::span<const int32_t> prompt) {
  if (!ChannelReader::fits(tokenizer, prompt)) {
    return std::make_unique<Constraint>(std::move(masks), tokenizer, begin);
  }
  return std::make_unique<FinalConstraint>(Constraint(std::move(masks), tokenizer, begin),
                                           ChannelReader(tokenizer, prompt));
}

}  // namespace skald
