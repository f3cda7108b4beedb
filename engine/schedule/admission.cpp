#include "engine/schedule/admission.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

// A text that does not fit is passed by so many others; then the room that they leave is kept for
// it.
constexpr int kMostPassed = 16;
// A step must not wait long for those that do not fit.
constexpr int kMostTried = 8;
// One page is kept free for so many running texts: they grow.
constexpr int64_t kTextsPerSparePage = 4;

bool older(const std::unique_ptr<ScheduledText>& a, const std::unique_ptr<ScheduledText>& b) {
  return a->age < b->age;
}

}  // namespace

void Admission::add(std::unique_ptr<ScheduledText> text) {
  line_.insert(std::upper_bound(line_.begin(), line_.end(), text, older), std::move(text));
}

ScheduledTexts Admission::take_cancelled() {
  ScheduledTexts taken;
  const auto stay = [](const auto& text) { return !text->cancelled(); };
  const auto first = std::stable_partition(line_.begin(), line_.end(), stay);
  std::move(first, line_.end(), std::back_inserter(taken));
  line_.erase(first, line_.end());
  return taken;
}

int64_t Admission::admit(ScheduledTexts& running, int64_t most) {
  if (line_.empty() || static_cast<int64_t>(running.size()) >= most) return 0;
  note_pages_in_the_making(running);
  promised_ = promised_pages(running);
  int64_t shared = 0;
  int tried = 0;  // in vain
  ScheduledText* first_without_room = nullptr;
  for (auto place = line_.begin();
       place != line_.end() && static_cast<int64_t>(running.size()) < most;) {
    ScheduledText& text = **place;
    const Fit fit = try_to_begin(text, running);
    if (fit != Fit::Yes) {
      text.sequence.truncate(0);
      if (fit == Fit::NoRoom && !first_without_room) first_without_room = &text;
      if (first_without_room && first_without_room->passed >= kMostPassed) break;
      if (fit == Fit::NoRoom && ++tried == kMostTried) break;
      ++place;
      continue;
    }
    if (first_without_room) ++first_without_room->passed;
    shared += text.sequence.length();
    auto admitted = std::move(*place);
    place = line_.erase(place);
    running.insert(std::upper_bound(running.begin(), running.end(), admitted, older),
                   std::move(admitted));
    promised_ = promised_pages(running);
  }
  return shared;
}

void Admission::note_pages_in_the_making(const ScheduledTexts& running) {
  in_the_making_.clear();
  for (const auto& text : running) {
    if (!text->reading()) continue;
    const size_t done = static_cast<size_t>(text->sequence.length() / kPageTokens);
    for (size_t i = done; i < text->hashes.size(); ++i) in_the_making_.insert(text->hashes[i]);
  }
}

Admission::Fit Admission::try_to_begin(ScheduledText& text, const ScheduledTexts& running) {
  bool wait = false;
  if (!begin_beside_sibling(text, running, wait)) {
    if (wait) return Fit::Later;
    share_prefix(text);
    const size_t next = static_cast<size_t>(text.sequence.length() / kPageTokens);
    const bool may_share =
        !text.unscored() && text.goal() > (static_cast<int64_t>(next) + 1) * kPageTokens;
    if (may_share && next < text.hashes.size() && in_the_making_.contains(text.hashes[next])) {
      return Fit::Later;
    }
  }
  if (!has_room(text)) return Fit::NoRoom;
  const size_t begin = static_cast<size_t>(text.sequence.length() / kPageTokens);
  for (size_t i = begin; i < text.hashes.size(); ++i) in_the_making_.insert(text.hashes[i]);
  return Fit::Yes;
}

// Samples of one prompt: the first computes it, the others begin with a fork of its sequence.
bool Admission::begin_beside_sibling(ScheduledText& text, const ScheduledTexts& running,
                                     bool& wait) {
  if (text.sample == 0 || text.length() > text.prompt_length()) return false;
  const auto sibling = std::find_if(running.begin(), running.end(), [&](const auto& other) {
    return other->generation == text.generation && other->sample == 0;
  });
  if (sibling == running.end()) return false;
  const int64_t useful = text.prompt_length() - 1;  // the last token is computed for its logits
  wait = (*sibling)->sequence.length() < useful;
  if (wait) return false;
  text.sequence = (*sibling)->sequence.fork();
  text.sequence.truncate(useful);
  return true;
}

void Admission::share_prefix(ScheduledText& text) {
  // Of a token that is to be scored the row before it is computed, and so is the last one.
  const int64_t most = text.unscored() ? text.scored : text.length() - 1;
  text.sequence = prefixes_.share(text.tokens, text.hashes, most / kPageTokens);
}

// What running texts lack for what they have, and some to grow.
int64_t Admission::promised_pages(const ScheduledTexts& running) const {
  int64_t pages =
      (static_cast<int64_t>(running.size()) + kTextsPerSparePage - 1) / kTextsPerSparePage;
  for (const auto& text : running) {
    const int64_t held = static_cast<int64_t>(text->sequence.pages().size());
    pages += std::max<int64_t>(pages_for(std::min(text->length() + 1, context_)) - held, 0);
  }
  return pages;
}

bool Admission::has_room(const ScheduledText& text) const {
  const int64_t needed = promised_ + text.missing_pages(context_);
  const int64_t free = pool_.free_pages();
  return needed <= free || needed <= free + prefixes_.idle_pages();
}

}  // namespace skald
