#include "engine/schedule/admission.h"

#include <algorithm>
#include <utility>

namespace skald {
namespace {

// This many younger samples may overtake a sample that does not fit. Then the queue stops, and
// freed pages are kept for that sample.
constexpr int kMostPassed = 16;
// A step tries at most this many samples that do not fit.
constexpr int kMostTried = 8;
// One page stays free for every kSamplesPerSparePage running samples, because they grow.
constexpr int64_t kSamplesPerSparePage = 4;

bool older(const std::unique_ptr<ScheduledSample>& a, const std::unique_ptr<ScheduledSample>& b) {
  return a->age < b->age;
}

}  // namespace

void Admission::add(std::unique_ptr<ScheduledSample> sample) {
  line_.insert(std::upper_bound(line_.begin(), line_.end(), sample, older), std::move(sample));
}

ScheduledSamples Admission::take_cancelled() {
  ScheduledSamples taken;
  const auto stay = [](const auto& sample) { return !sample->cancelled(); };
  const auto first = std::stable_partition(line_.begin(), line_.end(), stay);
  std::move(first, line_.end(), std::back_inserter(taken));
  line_.erase(first, line_.end());
  return taken;
}

int64_t Admission::admit(ScheduledSamples& running, int64_t most) {
  if (line_.empty() || static_cast<int64_t>(running.size()) >= most) return 0;
  note_pages_in_the_making(running);
  promised_ = promised_pages(running);
  int64_t shared = 0;
  int tried = 0;  // samples that did not fit
  ScheduledSample* first_without_room = nullptr;
  for (auto place = line_.begin();
       place != line_.end() && static_cast<int64_t>(running.size()) < most;) {
    ScheduledSample& sample = **place;
    const Fit fit = try_to_begin(sample, running);
    if (fit != Fit::Yes) {
      sample.sequence.truncate(0);
      if (fit == Fit::NoRoom && !first_without_room) first_without_room = &sample;
      if (first_without_room && first_without_room->passed >= kMostPassed) break;
      if (fit == Fit::NoRoom && ++tried == kMostTried) break;
      ++place;
      continue;
    }
    if (first_without_room) ++first_without_room->passed;
    shared += sample.sequence.length();
    auto admitted = std::move(*place);
    place = line_.erase(place);
    running.insert(std::upper_bound(running.begin(), running.end(), admitted, older),
                   std::move(admitted));
    promised_ = promised_pages(running);
  }
  return shared;
}

void Admission::note_pages_in_the_making(const ScheduledSamples& running) {
  in_the_making_.clear();
  for (const auto& sample : running) {
    if (!sample->in_prefill()) continue;
    const size_t done = static_cast<size_t>(sample->sequence.length() / kPageTokens);
    for (size_t i = done; i < sample->hashes.size(); ++i) in_the_making_.insert(sample->hashes[i]);
  }
}

Admission::Fit Admission::try_to_begin(ScheduledSample& sample, const ScheduledSamples& running) {
  bool wait = false;
  if (!begin_beside_sibling(sample, running, wait)) {
    if (wait) return Fit::Later;
    share_prefix(sample);
    const size_t next = static_cast<size_t>(sample.sequence.length() / kPageTokens);
    const bool may_share =
        !sample.unscored() && sample.goal() > (static_cast<int64_t>(next) + 1) * kPageTokens;
    if (may_share && next < sample.hashes.size() && in_the_making_.contains(sample.hashes[next])) {
      return Fit::Later;
    }
  }
  if (!has_room(sample)) return Fit::NoRoom;
  const size_t begin = static_cast<size_t>(sample.sequence.length() / kPageTokens);
  for (size_t i = begin; i < sample.hashes.size(); ++i) in_the_making_.insert(sample.hashes[i]);
  return Fit::Yes;
}

// Samples of one prompt: the first sample computes the prompt, the others start from a fork of its
// sequence. A recurrent state cannot be shortened to the prompt, so samples with one begin anew.
bool Admission::begin_beside_sibling(ScheduledSample& sample, const ScheduledSamples& running,
                                     bool& wait) {
  if (sample.index == 0 || sample.length() > sample.prompt_length()) return false;
  if (pool_.has_states()) return false;
  const auto sibling = std::find_if(running.begin(), running.end(), [&](const auto& other) {
    return other->generation == sample.generation && other->index == 0;
  });
  if (sibling == running.end()) return false;
  // The last prompt token must be computed for its logits
  const int64_t useful = sample.prompt_length() - 1;
  wait = (*sibling)->sequence.length() < useful;
  if (wait) return false;
  sample.sequence = (*sibling)->sequence.fork();
  sample.sequence.truncate(useful);
  return true;
}

void Admission::share_prefix(ScheduledSample& sample) {
  // The last token must be computed for its logits, and so must every token whose successor needs a
  // score, or whose hidden row is pooled.
  const int64_t most = sample.unscored() ? sample.scored : sample.goal() - 1;
  sample.sequence =
      prefixes_.share(sample.tokens, sample.hashes, most / kPageTokens, sample.generation->adapter);
}

// Pages that running samples need for their present tokens, and a reserve for growth.
int64_t Admission::promised_pages(const ScheduledSamples& running) const {
  int64_t pages =
      (static_cast<int64_t>(running.size()) + kSamplesPerSparePage - 1) / kSamplesPerSparePage;
  for (const auto& sample : running) {
    const int64_t held = static_cast<int64_t>(sample->sequence.pages().size());
    pages += std::max<int64_t>(pages_for(std::min(sample->length() + 1, context_)) - held, 0);
  }
  return pages;
}

bool Admission::has_room(const ScheduledSample& sample) const {
  const int64_t needed = promised_ + sample.missing_pages(context_);
  const int64_t free = pool_.free_pages();
  return needed <= free || needed <= free + prefixes_.idle_pages();
}

}  // namespace skald
