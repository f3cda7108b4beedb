// Requests for a small scheduler, and their results.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/executor.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {

using Tokens = std::vector<int32_t>;
inline constexpr int64_t kVocab = 60;

struct Limits {
  int64_t rows = 32, context = 400, cache_tokens = 0;
  int sequences = 4;
};

inline std::unique_ptr<Executor> limited_executor(const Limits& limits) {
  RunOptions options;
  options.threads = 1;
  options.rows = limits.rows;
  options.context = limits.context;
  options.sequences = limits.sequences;
  options.cache_tokens = limits.cache_tokens;
  RandomLlama shape;
  shape.type = DType::Q8_0;
  shape.layers = 1;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = 32;
  shape.dim = shape.ffn_dim = 32;
  shape.vocab = kVocab;
  return cpu::make_executor(random_llama(shape), options);
}

struct Request {
  Tokens prompt;
  int64_t max_tokens = 12;
  float temperature = 1;
  int samples = 1;
  bool score = false;
  Pooling pooling = Pooling::None;
};

inline Generation make_generation(const Request& request, uint64_t stream) {
  Generation generation;
  generation.prompt = request.prompt;
  generation.max_tokens = request.max_tokens;
  generation.params.temperature = request.temperature;
  generation.params.seed = 5;
  generation.params.top_logprobs = 2;
  generation.score_prompt = request.score;
  generation.pooling = request.pooling;
  for (int s = 0; s < request.samples; ++s) generation.streams.push_back(100 * stream + s);
  generation.cancelled =
      std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(request.samples));
  return generation;
}

struct Result {
  Tokens tokens;
  std::vector<Picked> prompt;
  int ends = 0;
  Ending ending = Ending::Failed;
  std::string problem;
  int64_t end_step = 0;
  std::vector<float> vector;
};

using Results = std::map<std::pair<size_t, int>, Result>;

struct Batch {
  explicit Batch(const std::vector<Request>& requests) {
    for (const Request& one : requests) all.push_back(make_generation(one, all.size()));
  }

  size_t index(const Generation* generation) const {
    return static_cast<size_t>(generation - all.data());
  }

  void take(std::span<GenerationEvent> events, int64_t step) {
    for (GenerationEvent& event : events) {
      Result& result = results[{index(event.generation), event.sample}];
      CHECK(result.ends == 0);
      if (event.kind == GenerationEvent::Kind::Token) {
        result.tokens.push_back(event.picked.token);
      } else if (event.kind == GenerationEvent::Kind::PromptToken) {
        result.prompt.push_back(event.picked);
      } else if (event.kind == GenerationEvent::Kind::Vector) {
        result.vector = event.vector;
      } else {
        ++result.ends;
        result.ending = event.ending;
        result.problem = event.problem;
        result.end_step = step;
      }
    }
  }

  const Results& run(Scheduler& scheduler) {
    for (Generation& generation : all) scheduler.add(generation);
    for (int64_t step = 0; !scheduler.idle(); ++step) {
      REQUIRE(step < 100000);
      take(scheduler.step(), step);
    }
    return results;
  }

  std::vector<Generation> all;
  Results results;
};

// The tokens that a Session generates for the request alone.
inline Tokens alone(const Request& request, uint64_t stream, int sample = 0) {
  const auto executor = limited_executor({.rows = 400, .sequences = 1});
  Generation generation = make_generation(request, stream);
  Session session(*executor, generation.params, generation.streams[static_cast<size_t>(sample)]);
  session.feed(request.prompt);
  Tokens tokens;
  for (int64_t i = 0; i < request.max_tokens && !session.full(); ++i) {
    tokens.push_back(session.next().token);
  }
  return tokens;
}

}  // namespace skald::test
