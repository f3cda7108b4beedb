#include "engine/speculate/guesser.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

int kinds_of(const Proposers& proposers) {
  int kinds = 0;
  for (const auto& proposer : proposers) kinds += proposer->kinds();
  return kinds;
}

Proposers one(std::unique_ptr<Proposer> proposer) {
  Proposers proposers;
  proposers.push_back(std::move(proposer));
  return proposers;
}

}  // namespace

Guesser::Guesser(Proposers proposers, int most, SecondsClock clock)
    : proposers_(std::move(proposers)),
      control_(kinds_of(proposers_), most),
      clock_(std::move(clock)) {
  int kinds = 0;
  for (const auto& proposer : proposers_) {
    first_kind_.push_back(kinds);
    kinds += proposer->kinds();
  }
}

Guesser::Guesser(std::unique_ptr<Proposer> proposer, int most, SecondsClock clock)
    : Guesser(one(std::move(proposer)), most, std::move(clock)) {}

void Guesser::ask(const GuessedText& text, int64_t room) {
  const int most = static_cast<int>(std::clamp<int64_t>(room, 0, control_.most()));
  offers_.clear();
  for (size_t i = 0; i < proposers_.size(); ++i) {
    Offer offer = proposers_[i]->offer(text, most);
    offer.kind += first_kind_[i];
    offers_.push_back(offer);
  }
}

std::span<const int32_t> Guesser::guess(const GuessedText& text, int64_t room) {
  guesses_.clear();
  const double begin = clock_();
  ask(text, room);
  const GuessControl::Choice choice = control_.choose(offers_);
  if (choice.count > 0) {
    Proposer& proposer = *proposers_[choice.offer];
    kind_ = offers_[choice.offer].kind;
    if (proposer.catch_up(text)) {
      const double caught_up = clock_();
      guesses_ = proposer.guess(text, choice.count);
      control_.made(kind_, choice.count, clock_() - caught_up);
    }
  }
  own_seconds_ += clock_() - begin;
  return guesses_;
}

bool Guesser::may_follow(const GuessedText& text) {
  const double begin = clock_();
  ask(text, control_.most());
  own_seconds_ += clock_() - begin;
  if (control_.choose(offers_).count > 0) return true;
  control_.skipped(offers_);
  return false;
}

std::optional<Features> Guesser::features() const {
  for (const auto& proposer : proposers_) {
    if (const std::optional<Features> kind = proposer->features()) return kind;
  }
  return {};
}

void Guesser::computed(std::span<const int32_t> tokens, int64_t first,
                       std::span<const float> features) {
  const double begin = clock_();
  try {
    for (const auto& proposer : proposers_) {
      if (proposer->features()) proposer->computed(tokens, first, features);
    }
  } catch (const Error& error) {
    failed(error.what());
  }
  own_seconds_ += clock_() - begin;
}

void Guesser::checked(int right) {
  control_.checked(kind_, static_cast<int>(guesses_.size()), right);
  right_ = right;
}

void Guesser::failed(std::string reason) {
  constexpr int kMostFailures = 3;
  pause();
  if (++failures_ < kMostFailures) return;
  proposers_.clear();
  ended_by_ = std::move(reason);
}

void Guesser::step_ended(int rows) {
  const double now = clock_();
  if (ended_) {
    control_.add_step(rows, now - *ended_ - own_seconds_);
    tokens_ += 1 + right_;
    seconds_ += now - *ended_;
  }
  ended_ = now;
  own_seconds_ = 0;
  right_ = 0;
}

GuessCounts Guesser::counts() const {
  GuessCounts counts = control_.counts();
  if (seconds_ > 0) counts.gain = tokens_ * control_.plain_seconds() / seconds_;
  return counts;
}

void Guesser::pause() { ended_.reset(); }

}  // namespace skald
