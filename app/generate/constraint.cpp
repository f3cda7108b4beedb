#include "app/generate/constraint.h"

#include <algorithm>

#include "app/generate/channel_reader.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald {
namespace {

// The tokenizer sees this many bytes before a forced text, because they decide how it splits the
// text.
constexpr size_t kMostBefore = 48;
constexpr size_t kMostForced = 512;  // bytes that are forced at a time
// A longer token may replace this many tokens at the end of a forced text.
constexpr size_t kMostUncertain = 8;

// The tokens that a reference allows. A stop token ends a text, so no reference allows it.
grammar::TokenMask tokens_of(const grammar::TokenReference& reference, const Tokenizer& tokenizer,
                             std::span<const int32_t> stop_ids) {
  const int32_t id = reference.id >= 0 ? reference.id : tokenizer.find(reference.name);
  const std::string name = reference.id >= 0 ? concat("<[", reference.id, "]>") : reference.name;
  if (id < 0 || id >= tokenizer.vocab_size()) {
    fail(Exit::Usage, "the grammar names the token ", printable(name, 60),
         ", which this model does not have");
  }
  const auto stops = [&](int32_t token) {
    return std::find(stop_ids.begin(), stop_ids.end(), token) != stop_ids.end();
  };
  if (stops(id) && !reference.others) {
    fail(Exit::Usage, "the grammar names the token ", printable(name, 60),
         ", which ends every text; leave it out");
  }
  const auto count = static_cast<size_t>(tokenizer.vocab_size());
  grammar::TokenMask mask((count + 63) / 64, 0);
  if (!reference.others) {
    grammar::add_token(mask, id);
    return mask;
  }
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (token != id && !stops(token)) grammar::add_token(mask, token);
  }
  return mask;
}

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

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
  std::span<const int32_t> forced() override {
    return in_final() ? constraint_.forced() : std::span<const int32_t>();
  }
  std::unique_ptr<TokenFilter> copy() const override {
    return std::make_unique<FinalConstraint>(*this);
  }

 private:
  bool in_final() const {
    return channels_.in_message() && channels_.kind() == ChannelReader::Kind::Answer;
  }

  Constraint constraint_;
  ChannelReader channels_;
};

}  // namespace

std::shared_ptr<const grammar::Vocabulary> constraint_vocabulary(
    const Tokenizer& tokenizer, std::span<const int32_t> stop_ids,
    std::span<const grammar::TokenReference> named) {
  std::vector<std::string_view> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const TokenKind kind = tokenizer.kind(id);
    const bool text =
        kind == TokenKind::Normal || kind == TokenKind::UserDefined || kind == TokenKind::Byte;
    if (text) bytes[static_cast<size_t>(id)] = tokenizer.piece_bytes(id);
  }
  std::vector<grammar::TokenMask> masks;
  for (const grammar::TokenReference& reference : named) {
    masks.push_back(tokens_of(reference, tokenizer, stop_ids));
  }
  return std::make_shared<grammar::Vocabulary>(bytes, stop_ids, std::move(masks));
}

std::shared_ptr<grammar::Masks> constraint_masks(
    const grammar::Rules& rules, std::shared_ptr<const grammar::Vocabulary> vocabulary) {
  return std::make_shared<grammar::Masks>(std::make_shared<grammar::Automaton>(rules),
                                          std::move(vocabulary));
}

Constraint::Constraint(std::shared_ptr<grammar::Masks> masks, const Tokenizer& tokenizer,
                       TextStream::Begin begin, bool forces)
    : masks_(std::move(masks)),
      tokenizer_(&tokenizer),
      matcher_(masks_),
      forces_(forces),
      drops_space_(begin == TextStream::Begin::Text &&
                   tokenizer.leading_space() != LeadingSpace::Keep) {}

std::unique_ptr<TokenFilter> Constraint::copy() const {
  return std::make_unique<Constraint>(*this);
}

std::span<const int32_t> Constraint::forced() { return std::span(forced_).subspan(forced_done_); }

std::span<const uint64_t> Constraint::allowed() {
  if (const auto next = forced(); !next.empty()) {
    forced_mask_.assign(masks_->vocabulary().words(), 0);
    grammar::add_token(forced_mask_, next.front());
    return forced_mask_;
  }
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
    const bool fits = bytes.size() > 1 && trial.accept(bytes.substr(1));
    (fits ? grammar::add_token : grammar::remove_token)(first_mask_, id);
  }
  return first_mask_;
}

void Constraint::accept(int32_t token) {
  const grammar::Vocabulary& vocabulary = masks_->vocabulary();
  if (vocabulary.is_end(token)) return;
  const bool drop = drops_space_ && tokenizer_->starts_word(token);
  drops_space_ = false;
  const std::string_view bytes = vocabulary.bytes(token).substr(drop ? 1 : 0);
  check((drop && matcher_.accept(bytes)) || matcher_.accept(token),
        "a token that the grammar allows");
  before_ += bytes;
  if (before_.size() > 4 * kMostBefore) before_.erase(0, before_.size() - kMostBefore);
  if (const auto next = forced(); !next.empty()) {
    check(next.front() == token, "forced tokens come one after the other");
    ++forced_done_;
  } else {
    find_forced();
  }
}

void Constraint::find_forced() {
  forced_.clear();
  forced_done_ = 0;
  if (!forces_) return;
  std::string text = matcher_.forced_text(kMostForced);
  // Leaves out the first bytes of a character that is not forced as a whole.
  size_t at = 0;
  for (char32_t c = 0; at < text.size() && grammar::decode_utf8(text, at, c);) {
  }
  text.resize(at);
  // A space belongs to the word that follows it; some tokenizers drop one at the end.
  text.resize(text.find_last_not_of(' ') + 1);
  if (text.empty()) return;
  forced_ = usual_tokens(text);
  forced_.resize(certain_tokens(forced_));
}

// The tokens into which the tokenizer splits `text` after what stands before it. Empty if a token
// would lie across the border.
std::vector<int32_t> Constraint::usual_tokens(const std::string& text) const {
  std::string_view before = before_;
  before.remove_prefix(before.size() - std::min(before.size(), kMostBefore));
  while (!before.empty() && is_continuation(before.front())) before.remove_prefix(1);
  const std::string whole = std::string(before) + text;
  const auto ids =
      tokenizer_->encode(whole, {.add_bos = false, .add_eos = false, .starts_text = false});
  std::string written;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (written.size() == before.size() && written == before) {
      for (size_t rest = i; rest < ids.size(); ++rest) {
        written += masks_->vocabulary().bytes(ids[rest]);
      }
      if (written != whole) return {};  // the tokenizer writes some characters in another way
      return {ids.begin() + static_cast<ptrdiff_t>(i), ids.end()};
    }
    written += masks_->vocabulary().bytes(ids[i]);
  }
  return {};
}

// The number of tokens that stay whatever follows: a longer token may join the last ones with what
// comes after.
size_t Constraint::certain_tokens(std::span<const int32_t> ids) const {
  const grammar::Vocabulary& vocabulary = masks_->vocabulary();
  size_t i = ids.size() - std::min(ids.size(), kMostUncertain);
  grammar::Matcher place = matcher_;
  for (const int32_t id : ids.first(i)) place.accept(id);
  for (; i < ids.size(); ++i) {
    std::string rest;
    for (const int32_t id : ids.subspan(i)) rest += vocabulary.bytes(id);
    const auto joins = [&](int32_t longer) { return grammar::Matcher(place).accept(longer); };
    if (vocabulary.any_longer(rest, joins)) break;
    place.accept(ids[i]);
  }
  return i;
}

std::unique_ptr<TokenFilter> answer_constraint(std::shared_ptr<grammar::Masks> masks,
                                               const Tokenizer& tokenizer, TextStream::Begin begin,
                                               std::span<const int32_t> prompt, bool forces) {
  if (!ChannelReader::fits(tokenizer, prompt)) {
    return std::make_unique<Constraint>(std::move(masks), tokenizer, begin, forces);
  }
  return std::make_unique<FinalConstraint>(Constraint(std::move(masks), tokenizer, begin, forces),
                                           ChannelReader(tokenizer, prompt));
}

}  // namespace skald
