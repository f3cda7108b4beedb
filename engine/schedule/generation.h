// What a Scheduler is asked for, and what it says about it: one prompt, and one or several texts
// that go on from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"

namespace skald {

// Which tokens one text may take next, where a grammar says so. Its errors end the text alone.
class TokenFilter {
 public:
  virtual ~TokenFilter() = default;
  virtual std::span<const uint64_t> allowed() = 0;  // as SampleContext::allowed
  virtual void accept(int32_t token) = 0;           // the token that was picked
  virtual bool finished() const = 0;                // nothing may follow: the text ends
};

// Lives until the events of all its samples' ends were taken.
struct Generation {
  std::vector<int32_t> prompt;     // at least one token, all of them of the vocabulary
  std::vector<uint64_t> streams;   // of random numbers (SampleContext::request), one a sample
  int64_t max_tokens = 0;          // of each sample; 0: only the prompt is computed
  SamplingParams params;           // validated
  std::span<const int32_t> stops;  // tokens that end a text
  bool score_prompt = false;       // log-probabilities of the prompt's tokens too
  std::vector<std::unique_ptr<TokenFilter>> filters;  // one a sample, or none

  // Set by any thread: the sample ends with the next step. One for each sample.
  std::unique_ptr<std::atomic<bool>[]> cancelled;

  int samples() const { return static_cast<int>(streams.size()); }
};

enum class Ending : uint8_t {
  Stop,       // by a token of `stops`, which was the last, or by its filter
  Length,     // after max_tokens
  Context,    // nothing more has room in it
  Cancelled,  // as was asked for
  Failed,     // `problem` says why
};

// Of one sample the events come in order; the prompt's tokens come with the first sample.
struct GenerationEvent {
  enum class Kind : uint8_t { PromptToken, Token, End };

  Generation* generation;
  int sample;
  Kind kind;
  Ending ending = Ending::Stop;
  Picked picked = {};  // of a PromptToken: the token that is there, from the second on
  std::string problem = {};
};

}  // namespace skald
