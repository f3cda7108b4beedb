// The input and output of a Scheduler: a Generation is one prompt and one or several samples that
// continue it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"

namespace skald {

// The tokens that one sample may take next, if a grammar restricts them. An Error thrown here ends
// only this sample.
class TokenFilter {
 public:
  virtual ~TokenFilter() = default;
  virtual std::span<const uint64_t> allowed() = 0;  // see SampleContext::allowed
  virtual void accept(int32_t token) = 0;           // called with each picked token
  virtual bool finished() const = 0;                // true: nothing may follow, the sample ends

  // Tokens that come next whatever the model says: allowed() has only the first of them. They may
  // be appended without asking the model; accept() is called with each, and the next call returns
  // the others.
  virtual std::span<const int32_t> forced() { return {}; }

  // A filter in the same state, on which guesses are tried. nullptr: it cannot be copied, and
  // nothing is guessed for its sample.
  virtual std::unique_ptr<TokenFilter> copy() const { return nullptr; }
};

// Which hidden rows of a prompt (Executor::hidden()) become the one vector that stands for its
// text.
enum class Pooling : uint8_t { None, First, Mean, Last };

// Must live until the End events of all its samples have been processed.
struct Generation {
  std::vector<int32_t> prompt;     // at least one token; all are in the vocabulary
  std::vector<uint64_t> streams;   // SampleContext::request of each sample
  int64_t max_tokens = 0;          // limit for each sample; 0: only compute the prompt
  SamplingParams params;           // validated
  int adapter = 0;                 // changes the model (engine/program/adapters.h)
  std::span<const int32_t> stops;  // tokens that end a sample
  bool score_prompt = false;       // also report log-probabilities of the prompt's tokens
  bool score_forced = false;  // and of tokens that a filter forces: the model is asked for each
  // Not None: the prompt's vector is computed instead of new tokens. There is one sample then, and
  // max_tokens is 0.
  Pooling pooling = Pooling::None;
  std::vector<std::unique_ptr<TokenFilter>> filters;  // one for each sample, or empty

  // One flag for each sample. Any thread may set it; the sample ends with the next step.
  std::unique_ptr<std::atomic<bool>[]> cancelled;

  int samples() const { return static_cast<int>(streams.size()); }
};

enum class Ending : uint8_t {
  Stop,       // a token of `stops`, which is the last token, or the filter
  Length,     // max_tokens reached
  Context,    // the context is full
  Cancelled,  // `cancelled` was set
  Failed,     // `problem` says why
};

// The events of one sample come in order. The prompt's tokens come with the first sample.
struct GenerationEvent {
  enum class Kind : uint8_t { PromptToken, Token, Vector, End };

  Generation* generation;
  int sample;
  Kind kind;
  Ending ending = Ending::Stop;
  Picked picked = {};  // PromptToken: a token of the prompt, from the second on
  std::string problem = {};
  std::vector<float> vector = {};  // Vector: [dim], finite, as pooled
};

}  // namespace skald
