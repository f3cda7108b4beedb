// Heads that guess, on the GPU: they compute what they compute on the CPU, read the same of their
// model, and change no text.
#include <algorithm>

#include "cuda/cuda.h"
#include "engine/base/rng.h"
#include "engine/cpu/executor.h"
#include "engine/schedule/session.h"
#include "engine/speculate/guesser.h"
#include "engine/speculate/one_text.h"
#include "models/heads/heads.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/eagle3_folder.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"
#include "tests/paths.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

constexpr double kHeadFloatBound = 8 * 0x1p-20, kHeadBrainBound = 8 * 0x1p-8;

struct HeadRows {
  std::vector<float> logits, features;
};

void append_values(std::vector<float>& to, std::span<const float> values) {
  to.insert(to.end(), values.begin(), values.end());
}

// Rows of a prompt, of a few tokens, and of single tokens, which are graphs on a GPU.
HeadRows rows_of(Executor& executor, Features gives) {
  HeadRows all;
  Sequence sequence = executor.new_sequence();
  const Program& program = executor.program();
  uint64_t seed = 0;
  for (const int rows : {40, 5, 5, 1, 1, 1}) {
    const auto tokens = random_tokens(rows, ++seed, program.tokens());
    std::vector<float> given(static_cast<size_t>(rows * program.given_cols()));
    for (size_t i = 0; i < given.size(); ++i) {
      given[i] = static_cast<float>(4 * uniform(seed, 11, static_cast<int64_t>(i), 0) - 2);
    }
    const SeqRows part{&sequence, tokens, Want::EveryRow, given};
    CHECK(executor.run({&part, 1}) == rows);
    append_values(all.features, executor.features(gives, 0, rows));
    for (int row = 0; row < rows; ++row) append_values(all.logits, executor.logits(row));
    append_values(all.features,
                  executor.features(gives, rows - 1, 1));  // logits have changed nothing
  }
  return all;
}

void compare_head(const OpenedHead& head, double bound) {
  RunOptions options;
  options.context = 128;
  options.exact = true;
  const Model& model = head.opened.model;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const HeadRows expected = rows_of(*cpu, head.kind.gives), got = rows_of(*gpu, head.kind.gives);
  REQUIRE(got.logits.size() == expected.logits.size());
  REQUIRE(got.features.size() == expected.features.size());
  CHECK(relative_error(got.logits, expected.logits) <= bound);
  CHECK(relative_error(got.features, expected.features) <= bound);
}

std::vector<float> features_of(Executor& executor, Features kind) {
  std::vector<float> all;
  Sequence sequence = executor.new_sequence();
  for (const int rows : {200, 1, 3, 1}) {
    const auto tokens =
        random_tokens(rows, static_cast<uint64_t>(rows), executor.program().tokens());
    const SeqRows part{&sequence, tokens, Want::LastRow};
    executor.run({&part, 1});
    append_values(all, executor.features(kind, 0, rows));
    append_values(all, executor.features(kind, rows / 2, rows - rows / 2));
  }
  return all;
}

// 60 tokens of a session, whose guesses are made by the proposer, if there is one.
std::vector<int32_t> text_of(Executor& executor, const SamplingParams& params,
                             std::unique_ptr<Proposer> proposer) {
  Session session(executor, params, 0);
  session.feed(random_tokens(20, 1, executor.program().tokens()));
  const bool guesses = proposer != nullptr;
  Guesser* guesser = nullptr;
  if (guesses) {
    auto made = std::make_unique<Guesser>(std::move(proposer), 4);
    guesser = made.get();
    session.guess(std::move(made));
  }
  std::vector<int32_t> tokens;
  while (tokens.size() < 60) tokens.push_back(session.next(nullptr, tokens.size() == 59).token);
  if (guesses) {
    CHECK(guesser->counts().steps > 0);
    CHECK(guesser->ended_by().empty());
  }
  return tokens;
}

void compare_texts(const Model& model, const OpenedHead& head) {
  RunOptions options;
  options.context = 128;
  options.reproducible = true;  // else the number of rows may change how numbers are rounded
  options.checkpoints = kSessionCheckpoints + kGuessCheckpoints;
  Model tapped = model;
  tapped.taps = head.taps;
  const auto plain = cuda::make_executor(model, options, 0, switches());
  const auto executor = cuda::make_executor(tapped, options, 0, switches());
  for (const float temperature : {0.0f, 0.9f}) {
    CAPTURE(temperature);
    SamplingParams params;
    params.temperature = temperature;
    const auto expected = text_of(*plain, params, nullptr);
    auto proposer = std::make_unique<HeadProposer>(
        cuda::make_executor(head.opened.model, options, 0, switches()), head.kind);
    CHECK(text_of(*executor, params, std::move(proposer)) == expected);
  }
}

}  // namespace

TEST_CASE("the layer that predicts a token computes on the GPU what it does on the CPU") {
  const TempFolder temp;
  const OpenedModel model = open_model(temp.write("mtp.gguf", RecurrentGguf().file(true)));
  const auto head = open_mtp(model);
  REQUIRE(head);
  compare_head(*head, kHeadFloatBound);
  compare_texts(model.model, *head);
}

TEST_CASE("an EAGLE-3 head computes on the GPU what it does on the CPU") {
  const TempFolder temp;
  const OpenedModel model = open_model(source_dir() / "models" / "demo");
  for (const bool before : {false, true}) {
    CAPTURE(before);
    Eagle3Folder(Eagle3Changes::norm_before(before)).write(temp.path() / "head");
    const OpenedHead head = open_eagle3(temp.path() / "head", model);
    compare_head(head, kHeadBrainBound);
    if (!before) compare_texts(model.model, head);
  }
}

TEST_CASE("what heads read of a model on the GPU is what they read on the CPU") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F32, DType::BF16);
  Model model = random_llama(shape);
  model.taps = {1};
  RunOptions options;
  options.exact = true;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  for (const Features kind : {Features::Stream, Features::Normed, Features::Taps}) {
    CAPTURE(static_cast<int>(kind));
    const auto expected = features_of(*cpu, kind), got = features_of(*gpu, kind);
    REQUIRE(got.size() == expected.size());
    CHECK(relative_error(got, expected) <=
          (shape.type == DType::F32 ? kHeadFloatBound : kHeadBrainBound));
  }
}

}  // namespace skald::test
