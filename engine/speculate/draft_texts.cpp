#include "engine/speculate/draft_texts.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

// The most tokens of a text that are computed together with its first guess. The step takes hardly
// longer for them.
constexpr int64_t kFewTokens = 8;
constexpr double kNewRowShare = 0.2;  // of a new measurement in a mean

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b, size_t most) {
  most = std::min({most, a.size(), b.size()});
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

}  // namespace

// A text whose guesses are being made.
struct DraftTexts::Growing {
  Request* request;
  int64_t most;  // guesses, as the draft model's context allows
  SamplingParams params;
  std::vector<int32_t> history = {};

  Text& text() const { return static_cast<Text&>(*request->text); }
};

DraftTexts::Text::Text(DraftTexts& all)
    : all_(all),
      sequence_(all.draft_->new_sequence()),
      translation_(all.translations_ ? all.translations_() : nullptr),
      too_long_(all.draft_->context() + 1) {
  all.texts_.push_back(this);
}

DraftTexts::Text::~Text() { std::erase(all_.texts_, this); }

DraftTexts::DraftTexts(std::unique_ptr<Executor> draft, int64_t vocab, Translations translations,
                       SecondsClock clock)
    : draft_(std::move(draft)),
      vocab_(vocab),
      translations_(std::move(translations)),
      clock_(std::move(clock)) {
  check(draft_->state_bytes() == 0, "a draft model can drop tokens");
}

int DraftTexts::offer(const TextsProposer::Text& of, std::span<const int32_t> tokens,
                      int most) const {
  const Text& text = static_cast<const Text&>(of);
  return !tokens.empty() && std::ssize(tokens) < text.too_long_ ? most : 0;
}

int64_t DraftTexts::few() const { return std::min(kFewTokens, draft_->max_rows()); }

double DraftTexts::catch_up_seconds(const TextsProposer::Text& of, int64_t tokens) const {
  const Text& text = static_cast<const Text&>(of);
  const int64_t more = tokens - std::ssize(text.computed_);
  return more > few() ? static_cast<double>(more) * row_seconds_ : 0;
}

std::vector<int32_t> DraftTexts::in_draft_tokens(Text& text,
                                                 std::span<const int32_t> tokens) const {
  if (text.translation_) return text.translation_->to_draft(tokens);
  std::vector<int32_t> known;
  known.reserve(tokens.size());
  const int64_t vocab = draft_->program().vocab();
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known),
               [&](int32_t token) { return token < vocab; });
  return known;
}

// Gives a text without cache the cache of the text that begins most alike.
void DraftTexts::share_beginning(Text& text) const {
  const std::span<const int32_t> wanted = text.pending_;
  const Text* nearest = nullptr;
  size_t most = 0;
  for (const Text* other : texts_) {
    const size_t common = common_prefix(other->computed_, wanted, wanted.size() - 1);
    if (common > most) {
      most = common;
      nearest = other;
    }
  }
  if (!nearest) return;
  text.sequence_ = nearest->sequence_.fork();
  text.sequence_.truncate(static_cast<int64_t>(most));
  const auto end = text.pending_.begin() + static_cast<std::ptrdiff_t>(most);
  text.computed_.assign(text.pending_.begin(), end);
  text.pending_.erase(text.pending_.begin(), end);
}

// Cuts off what the text no longer has, and finds what is new in it. False: no guess can be made.
bool DraftTexts::follow(Text& text, std::span<const int32_t> tokens) {
  const std::vector<int32_t> wanted = in_draft_tokens(text, tokens);
  if (wanted.empty()) return false;
  if (std::ssize(wanted) > draft_->context()) {
    text.too_long_ = std::min(text.too_long_, std::ssize(tokens));
    return false;
  }
  // The last token is computed again if need be, as its logits are needed.
  text.computed_.resize(common_prefix(text.computed_, wanted, wanted.size() - 1));
  text.sequence_.truncate(std::ssize(text.computed_));
  text.pending_.assign(wanted.begin() + std::ssize(text.computed_), wanted.end());
  return true;
}

// Moves the tokens of the rows from pending_ to computed_. On an Error nothing has changed.
void DraftTexts::compute(std::span<const SeqRows> rows, std::span<Text* const> texts) {
  draft_->run(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    Text& text = *texts[i];
    const auto end = text.pending_.begin() + std::ssize(rows[i].tokens);
    text.computed_.insert(text.computed_.end(), text.pending_.begin(), end);
    text.pending_.erase(text.pending_.begin(), end);
  }
}

// True if a new text begins like one of the others, which are being taken in.
bool DraftTexts::begins_like_one_of(std::span<Text* const> others, const Text& text) {
  const std::span<const int32_t> tokens = text.pending_;
  const size_t half = tokens.size() / 2;
  return std::any_of(others.begin(), others.end(), [&](const Text* other) {
    const size_t known = std::min(other->computed_.size(), half);
    return common_prefix(other->computed_, tokens, known) == known &&
           common_prefix(other->pending_, tokens.subspan(known), half - known) == half - known;
  });
}

void DraftTexts::catch_up(std::span<Request> requests) {
  std::vector<SeqRows> rows;
  std::vector<Text*> texts;
  int64_t left = draft_->max_rows(), pages = draft_->pages().free_pages();
  for (Request& one : requests) {
    Text& text = static_cast<Text&>(*one.text);
    one.ready = follow(text, one.of.tokens);
    if (one.ready && text.computed_.empty()) {
      one.ready = !begins_like_one_of(texts, text);  // else it waits for a part of that cache
      if (one.ready) share_beginning(text);
    }
    if (!one.ready || std::ssize(text.pending_) <= few() || left == 0) continue;
    const int64_t part = std::min(std::ssize(text.pending_) - 1, left);
    const int64_t more = text.sequence_.missing_pages(part);
    if (more > pages) continue;
    pages -= more;
    left -= part;
    rows.push_back({&text.sequence_, std::span(text.pending_).first(static_cast<size_t>(part)),
                    Want::Nothing});
    texts.push_back(&text);
  }
  if (!rows.empty()) {
    const double begin = clock_();
    compute(rows, texts);
    const auto computed = static_cast<double>(draft_->max_rows() - left);
    const double seconds = (clock_() - begin) / computed;
    row_seconds_ += (row_seconds_ == 0 ? 1 : kNewRowShare) * (seconds - row_seconds_);
  }
  for (Request& one : requests) {
    const Text& text = static_cast<Text&>(*one.text);
    one.ready = one.ready && std::ssize(text.pending_) <= few();
  }
}

// The settings of the text, for the draft model's vocabulary.
SamplingParams DraftTexts::draft_params(const Text& text, const SamplingParams& params) const {
  SamplingParams own;
  own.temperature = 0;
  if (text.translation_) return own;
  own = params;
  own.top_logprobs = 0;
  const int64_t vocab = draft_->program().vocab();
  std::erase_if(own.logit_bias, [&](const auto& bias) { return bias.first >= vocab; });
  return own;
}

// The texts that are ready, as many as fit a step and the cache.
std::vector<DraftTexts::Growing> DraftTexts::with_room(std::span<Request> requests) const {
  std::vector<Growing> growing;
  int64_t pages = draft_->pages().free_pages();
  for (Request& one : requests) {
    one.guesses.clear();
    if (!one.ready || one.count <= 0) continue;
    Text& text = static_cast<Text&>(*one.text);
    const int64_t pending = std::ssize(text.pending_);
    // A guess after the last one needs the context's last token, but no place of its own.
    const int64_t room = draft_->context() - std::ssize(text.computed_) - pending + 1;
    const int64_t most = std::min<int64_t>(one.count, room);
    const int64_t more = text.sequence_.missing_pages(pending + most - 1);
    one.ready = more <= pages && std::ssize(growing) < draft_->max_rows();
    if (!one.ready) continue;
    pages -= more;
    growing.push_back({&one, most, draft_params(text, *one.of.params)});
    growing.back().history.assign(one.of.tokens.begin(), one.of.tokens.end());
  }
  return growing;
}

// The pending tokens of all texts together may be more than a step has rows.
void DraftTexts::compute_all_but_last(std::vector<Growing>& growing) {
  int64_t all = 0;
  for (const Growing& one : growing) all += std::ssize(one.text().pending_);
  if (all <= draft_->max_rows()) return;
  std::vector<SeqRows> rows;
  std::vector<Text*> texts;
  int64_t left = draft_->max_rows();
  const auto flush = [&] {
    if (!rows.empty()) compute(rows, texts);
    rows.clear();
    texts.clear();
    left = draft_->max_rows();
  };
  for (const Growing& one : growing) {
    Text& text = one.text();
    const int64_t part = std::ssize(text.pending_) - 1;
    if (part == 0) continue;
    if (part > left) flush();
    rows.push_back({&text.sequence_, std::span(text.pending_).first(static_cast<size_t>(part)),
                    Want::Nothing});
    texts.push_back(&text);
    left -= part;
  }
  flush();
}

void DraftTexts::compute_pending(std::vector<Growing>& growing) {
  std::vector<SeqRows> rows;
  std::vector<Text*> texts;
  for (const Growing& one : growing) {
    rows.push_back({&one.text().sequence_, one.text().pending_, Want::LastRow});
    texts.push_back(&one.text());
  }
  compute(rows, texts);
}

// Makes one more guess for each text, from the logits of the last step. Keeps the texts that get
// further guesses. Returns true if their step has been started.
bool DraftTexts::next_guesses(std::vector<Growing>& growing) {
  std::vector<PickRequest> requests;
  std::vector<Sequence*> sequences;
  bool all_go_on = true;
  for (const Growing& one : growing) {
    requests.push_back(
        {&one.params, {one.request->of.request, std::ssize(one.history), one.history}});
    sequences.push_back(&one.text().sequence_);
    all_go_on = all_go_on && std::ssize(one.request->guesses) + 1 < one.most;
  }
  const Picks picks =
      all_go_on ? draft_->pick_and_run(requests, sequences) : Picks{draft_->pick(requests)};
  const size_t before = growing.size();
  for (size_t i = 0; i < before; ++i) {
    Growing& one = growing[i];
    const int32_t token = picks.picked[i].token;
    (picks.step != 0 ? one.text().computed_ : one.text().pending_).push_back(token);
    if (!one.text().translation_ && token >= vocab_) {
      one.most = 0;
      continue;
    }
    one.history.push_back(token);
    one.request->guesses.push_back(token);
  }
  std::erase_if(growing,
                [](const Growing& one) { return std::ssize(one.request->guesses) >= one.most; });
  if (picks.step != 0 && growing.size() == before) return true;
  if (picks.step != 0) {  // it has rows of texts that get no more guesses
    for (const Growing& one : growing) {
      Text& text = one.text();
      text.pending_.assign(1, text.computed_.back());
      text.computed_.pop_back();
      text.sequence_.truncate(std::ssize(text.computed_));
    }
  }
  return false;
}

void DraftTexts::guess(std::span<Request> requests) {
  last_steps_.clear();
  std::vector<Growing> growing = with_room(requests);
  try {
    double begin = clock_();
    compute_all_but_last(growing);
    for (bool started = false; !growing.empty();) {
      const int64_t texts = std::ssize(growing);
      if (!started) compute_pending(growing);
      started = next_guesses(growing);
      const double now = clock_();
      last_steps_.push_back({texts, now - std::exchange(begin, now)});
    }
  } catch (...) {
    for (Request& one : requests) one.guesses.clear();
    throw;
  }
  for (Request& one : requests) {
    const Text& text = static_cast<Text&>(*one.text);
    if (!text.translation_ || one.guesses.empty()) continue;
    one.guesses = text.translation_->from_draft(one.guesses);
    if (std::ssize(one.guesses) > one.count) one.guesses.resize(static_cast<size_t>(one.count));
  }
}

}  // namespace skald
