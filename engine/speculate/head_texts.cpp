#include "engine/speculate/head_texts.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace skald {
namespace {

// Rows that wait for guesses are computed when they are so many, and in prompts at once.
constexpr int64_t kMostWaiting = 32;

}  // namespace

// A text whose guesses are being made.
struct HeadTexts::Growing {
  Request* request;
  Text* text;
  int64_t known;  // rows of the cache that are no guesses
  SamplingParams params;
  std::vector<int32_t> history;
  std::vector<float> own = {};  // the head's features of the last row
  int64_t last_row = 0;         // of the last step
};

HeadTexts::HeadTexts(std::unique_ptr<Executor> head, HeadKind kind, SecondsClock clock)
    : head_(std::move(head)), kind_(std::move(kind)), clock_(std::move(clock)) {
  const Program& program = head_->program();
  check(program.state_floats() == 0, "a head can drop tokens");
  own_cols_ = program.act(program.features(kind_.gives)).cols;
  model_cols_ = program.given_cols() - (kind_.both ? own_cols_ : 0);
  check(model_cols_ > 0 && (kind_.both || model_cols_ == own_cols_), "a head is given features");
  check(kind_.tokens.empty() || std::ssize(kind_.tokens) == program.vocab(),
        "each token of the head has one of the text");
}

// Keeps the features of the first `rows` positions from origin_ on.
void HeadTexts::keep(Text& text, int64_t rows) const {
  if (rows < text.sequence_.length()) text.sequence_.truncate(rows);
  text.waiting_.resize(static_cast<size_t>((rows - text.sequence_.length()) * model_cols_));
}

// Lets the rows wait.
void HeadTexts::take(const ComputedRows& shown) const {
  Text& text = static_cast<Text&>(*shown.text);
  if (shown.first < text.origin_ || shown.first > end(text)) {  // what lies between is not known
    keep(text, 0);
    text.origin_ = shown.first;
  }
  keep(text, shown.first - text.origin_);
  text.waiting_.insert(text.waiting_.end(), shown.features.begin(), shown.features.end());
  const bool room = text.sequence_.missing_pages(waiting(text)) <= head_->pages().free_pages();
  if (room && end(text) - text.origin_ <= head_->context()) return;
  // Begins anew with the last row.
  text.waiting_.erase(text.waiting_.begin(),
                      text.waiting_.end() - static_cast<std::ptrdiff_t>(model_cols_));
  text.origin_ = shown.first + std::ssize(shown.features) / model_cols_ - 1;
  text.sequence_.truncate(0);
}

void HeadTexts::computed(std::span<const ComputedRows> shown) {
  std::vector<Part> parts;
  int64_t pages = head_->pages().free_pages();
  for (const ComputedRows& one : shown) {
    take(one);
    Text& text = static_cast<Text&>(*one.text);
    // The last row also needs the token that follows, which may not be picked yet.
    const int64_t count = waiting(text) - 1, more = text.sequence_.missing_pages(count);
    if (count < kMostWaiting || more > pages) continue;
    pages -= more;
    parts.push_back({&text, one.tokens, count});
  }
  compute(std::move(parts));
}

// Moves waiting rows of the texts to the cache, all in one step.
void HeadTexts::compute_step(std::span<const Part> parts, Want want) {
  int64_t all = 0;
  for (const Part& part : parts) all += part.count;
  const int64_t cols = head_->program().given_cols();
  given_rows_.resize(static_cast<size_t>(all * cols));  // before spans of it are taken
  std::vector<SeqRows> rows;
  auto to = given_rows_.begin();
  for (const Part& part : parts) {
    const auto first = to;
    for (int64_t i = 0; i < part.count; ++i) {
      if (kind_.both) to = std::fill_n(to, own_cols_, 0.0f);
      to = std::copy_n(part.text->waiting_.begin() + static_cast<std::ptrdiff_t>(i * model_cols_),
                       model_cols_, to);
    }
    // Each row reads the following token.
    const int64_t next = part.text->origin_ + part.text->sequence_.length() + 1;
    rows.push_back({&part.text->sequence_,
                    part.tokens.subspan(static_cast<size_t>(next), static_cast<size_t>(part.count)),
                    want, std::span<const float>(first, to)});
  }
  head_->run(rows);
  for (const Part& part : parts) {
    std::vector<float>& waiting = part.text->waiting_;
    waiting.erase(waiting.begin(),
                  waiting.begin() + static_cast<std::ptrdiff_t>(part.count * model_cols_));
  }
}

// The same in as many steps as are needed.
void HeadTexts::compute(std::vector<Part> parts) {
  std::vector<Part> step;
  int64_t left = head_->max_rows();
  const auto flush = [&] {
    if (!step.empty()) compute_step(step, Want::Nothing);
    step.clear();
    left = head_->max_rows();
  };
  for (Part& part : parts) {
    while (part.count > 0) {
      const int64_t rows = std::min(part.count, left);
      step.push_back({part.text, part.tokens, rows});
      part.count -= rows;
      left -= rows;
      if (left == 0) flush();
    }
  }
  flush();
}

int HeadTexts::offer(const TextsProposer::Text& of, std::span<const int32_t> tokens,
                     int most) const {
  const Text& text = static_cast<const Text&>(of);
  const int64_t size = std::ssize(tokens);
  // The last token is not computed yet; the features of the one before wait.
  const bool known = end(text) == size - 1 && waiting(text) > 0;
  const int64_t room = head_->context() - (size - 1 - text.origin_);
  return known ? static_cast<int>(std::clamp<int64_t>(room + 1, 0, most)) : 0;
}

void HeadTexts::catch_up(std::span<Request> requests) {
  for (Request& one : requests) {
    one.ready = offer(*one.text, one.of.tokens, one.count) >= one.count;
  }
}

// The text's settings, if both have the same tokens. Other heads guess what is most probable.
SamplingParams HeadTexts::own_params(const SamplingParams& params) const {
  SamplingParams own;
  own.temperature = 0;
  if (!kind_.tokens.empty()) return own;
  own = params;
  own.top_logprobs = 0;
  const int64_t vocab = head_->program().vocab();
  std::erase_if(own.logit_bias, [&](const auto& bias) { return bias.first >= vocab; });
  return own;
}

// Computes the waiting rows of the texts that are ready, as many as fit a step and the cache.
std::vector<HeadTexts::Growing> HeadTexts::begin(std::span<Request> requests) {
  std::vector<Growing> growing;
  std::vector<Part> parts;
  int64_t pages = head_->pages().free_pages(), all = 0;
  for (Request& one : requests) {
    one.guesses.clear();
    if (!one.ready || one.count <= 0) continue;
    Text& text = static_cast<Text&>(*one.text);
    const int64_t more = text.sequence_.missing_pages(waiting(text) + one.count - 1);
    one.ready = more <= pages && std::ssize(growing) < head_->max_rows();
    if (!one.ready) continue;
    pages -= more;
    all += waiting(text);
    parts.push_back({&text, one.of.tokens, waiting(text)});
    growing.push_back({&one, &text, 0, own_params(*one.of.params),
                       std::vector<int32_t>(one.of.tokens.begin(), one.of.tokens.end())});
  }
  if (growing.empty()) return growing;
  if (all > head_->max_rows()) {
    for (Part& part : parts) --part.count;
    compute(parts);
    for (Part& part : parts) part.count = 1;
  }
  compute_step(parts, Want::LastRow);
  int64_t row = -1;
  for (size_t i = 0; i < growing.size(); ++i) {
    growing[i].known = growing[i].text->sequence_.length();
    growing[i].last_row = row += parts[i].count;
  }
  return growing;
}

// A guess more of each text, from the last step. Leaves the texts that get further ones, with the
// head's features.
void HeadTexts::pick(std::vector<Growing>& growing) {
  std::vector<PickRequest> requests;
  requests.reserve(growing.size());
  for (const Growing& one : growing) {
    requests.push_back(
        {&one.params, {one.request->of.request, std::ssize(one.history), one.history}});
  }
  const std::vector<Picked> picked = head_->pick(requests);
  const std::span<const float> features =
      head_->features(kind_.gives, 0, growing.back().last_row + 1);
  for (size_t i = 0; i < growing.size(); ++i) {
    Growing& one = growing[i];
    const int32_t own = picked[i].token;
    const int32_t token = kind_.tokens.empty() ? own : kind_.tokens[static_cast<size_t>(own)];
    one.request->guesses.push_back(token);
    one.history.push_back(token);
    const auto row = features.subspan(static_cast<size_t>(one.last_row * own_cols_),
                                      static_cast<size_t>(own_cols_));
    one.own.assign(row.begin(), row.end());
  }
  std::erase_if(growing, [&](const Growing& one) {
    return std::ssize(one.request->guesses) >= one.request->count ||
           one.history.back() >= head_->program().tokens();
  });
}

// Computes a row after the last one of each text, with the head's own features of that one.
void HeadTexts::compute_guesses(std::span<const Growing> growing) {
  const int64_t cols = head_->program().given_cols();
  given_rows_.assign(growing.size() * static_cast<size_t>(cols), 0.0f);
  std::vector<SeqRows> rows;
  for (size_t i = 0; i < growing.size(); ++i) {
    const auto given =
        std::span(given_rows_).subspan(i * static_cast<size_t>(cols), static_cast<size_t>(cols));
    std::copy(growing[i].own.begin(), growing[i].own.end(), given.begin());
    rows.push_back(
        {&growing[i].text->sequence_, std::span(growing[i].history).last(1), Want::LastRow, given});
  }
  head_->run(rows);
}

void HeadTexts::guess(std::span<Request> requests) {
  last_steps_.clear();
  double start = clock_();
  std::vector<Growing> growing = begin(requests);
  std::vector<std::pair<Text*, int64_t>> known;
  known.reserve(growing.size());
  for (const Growing& one : growing) known.emplace_back(one.text, one.known);
  const auto drop_guesses = [&] {
    for (const auto& [text, rows] : known) text->sequence_.truncate(rows);
  };
  try {
    while (!growing.empty()) {
      const int64_t texts = std::ssize(growing);
      pick(growing);
      const double now = clock_();
      last_steps_.push_back({texts, now - std::exchange(start, now)});
      if (growing.empty()) break;
      compute_guesses(growing);
      for (size_t i = 0; i < growing.size(); ++i) growing[i].last_row = static_cast<int64_t>(i);
    }
  } catch (...) {
    drop_guesses();
    for (Request& one : requests) one.guesses.clear();
    throw;
  }
  drop_guesses();
}

}  // namespace skald
