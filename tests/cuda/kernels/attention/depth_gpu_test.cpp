// Decode attention is split by the depth of a step's deepest sequence, in classes with a graph each
// (decode_depth()). In these tests sequences grow from one class into the next.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda/cuda.h"
#include "cuda/kernels/attention/attention.h"
#include "engine/cpu/executor.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"
#include "tests/session_pair.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

Model deep_model() {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.context = 8192;
  shape.head_dim = GENERATE(64, 128);
  return random_llama(shape);
}

RunOptions options_for(int64_t context, int sequences = 1) {
  RunOptions options;
  options.context = context;
  options.sequences = sequences;
  options.rows = 256;
  return options;
}

std::unique_ptr<Executor> gpu_executor(const Model& model, int64_t context, int sequences = 1) {
  return cuda::make_executor(model, options_for(context, sequences), 0, switches());
}

void feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min<size_t>(tokens.size(), 256));
    const SeqRows rows{&sequence, part, Want::Nothing};
    executor.run({&rows, 1});
    tokens = tokens.subspan(part.size());
  }
}

// The logits of a step with the next token of each sequence.
std::vector<std::vector<float>> step(Executor& executor, std::span<Sequence> sequences,
                                     std::span<const Tokens> texts) {
  std::vector<SeqRows> rows;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto at = static_cast<size_t>(sequences[s].length());
    rows.push_back({&sequences[s], std::span(texts[s]).subspan(at, 1), Want::LastRow});
  }
  executor.run(rows);
  std::vector<std::vector<float>> logits;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto row = executor.logits(static_cast<int64_t>(s));
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr int64_t kBorders[] = {1024, 4096};  // the deepest of each class

}  // namespace

TEST_CASE("a depth class ends where the tests below cross into the next", "[depth]") {
  for (const int64_t border : kBorders) {
    CHECK(cuda::decode_depth(border) == border);
    CHECK(cuda::decode_depth(border + 1) == 4 * border);
  }
}

TEST_CASE("early steps across the end of a depth class give the same tokens", "[depth]") {
  const Model model = deep_model();
  const int64_t border = GENERATE(from_range(std::begin(kBorders), std::end(kBorders)));
  const auto plain = gpu_executor(model, 5120), ahead = gpu_executor(model, 5120);
  SessionPair pair(*plain, *ahead);
  SamplingParams params;
  SECTION("greedy") { params.temperature = 0; }
  SECTION("by the defaults") {}
  pair.both([&](Session& s) {
    s.set_sampling(params, 3);
    s.feed(random_tokens(border - 6, 1));
  });
  pair.next(20);
  const int64_t before = ahead->last_step();
  pair.next(10);
  if (switches().graphs) CHECK(ahead->last_step() == before + 10);
  // Back into the class before, whose graphs still exist, and over its end once more.
  pair.both([&](Session& s) { s.truncate(border - 4); });
  pair.next(12);
}

TEST_CASE("logits at a depth depend neither on earlier sequences nor on the planned context",
          "[depth]") {
  const Model model = deep_model();
  const int64_t border = GENERATE(from_range(std::begin(kBorders), std::end(kBorders)));
  const Tokens text = random_tokens(border + 8, 1);
  const auto tight = gpu_executor(model, border + 8), roomy = gpu_executor(model, 8192);
  std::vector<std::vector<float>> first;
  for (Executor* const executor : {tight.get(), roomy.get(), roomy.get()}) {
    Sequence sequence = executor->new_sequence();
    feed(*executor, sequence, std::span(text).first(static_cast<size_t>(border) - 4));
    for (size_t i = 0; i < 8; ++i) {
      const auto logits = step(*executor, {&sequence, 1}, {&text, 1}).front();
      if (first.size() <= i) first.push_back(logits);
      CAPTURE(border, i);
      CHECK(same_bits(logits, first[i]));
    }
  }
}

TEST_CASE("sequences of unlike depths in one step agree with the CPU as the deepest grows",
          "[depth]") {
  RandomLlama shape;
  shape.type = DType::F16;
  shape.context = 2048;
  shape.head_dim = GENERATE(64, 128);
  const Model model = random_llama(shape);
  const auto gpu = gpu_executor(model, 2048, 2);
  const auto cpu = cpu::make_executor(model, options_for(2048, 2));
  const Tokens texts[] = {random_tokens(1040, 1), random_tokens(60, 2)};
  const auto logits_of = [&](Executor& executor) {
    std::vector<Sequence> sequences;
    for (size_t s = 0; s < 2; ++s) {
      sequences.push_back(executor.new_sequence());
      feed(executor, sequences[s], std::span(texts[s]).first(s == 0 ? 1018 : 40));
    }
    std::vector<std::vector<float>> logits;
    for (int i = 0; i < 12; ++i) {
      for (auto& row : step(executor, sequences, texts)) logits.push_back(std::move(row));
    }
    return logits;
  };
  const auto got = logits_of(*gpu), expected = logits_of(*cpu);
  REQUIRE(got.size() == 24);
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(got[i], expected[i]) < 4e-3);
  }
}

TEST_CASE("early steps of sequences of unlike depths cross the end of a depth class", "[depth]") {
  const Model model = deep_model();
  const auto write = [&](bool ahead) {
    const auto executor = gpu_executor(model, 2048, 2);
    Tokens texts[] = {random_tokens(1018, 1), random_tokens(40, 2)};
    std::vector<Sequence> sequences;
    std::vector<Sequence*> all;
    for (size_t s = 0; s < 2; ++s) {
      sequences.push_back(executor->new_sequence());
      feed(*executor, sequences[s], std::span(texts[s]).first(texts[s].size() - 1));
    }
    for (Sequence& sequence : sequences) all.push_back(&sequence);
    SamplingParams params;
    params.temperature = 0;
    bool begun = false;
    std::vector<Picked> picks;
    for (int i = 0; i < 20; ++i) {
      std::vector<SeqRows> rows;
      std::vector<PickRequest> requests;
      for (size_t s = 0; s < 2; ++s) {
        rows.push_back({all[s], std::span(texts[s]).last(1), Want::LastRow});
        requests.push_back({&params, {s, static_cast<int64_t>(texts[s].size()), {}, {}}});
      }
      if (!begun) executor->run(rows);
      const Picks picked =
          ahead ? executor->pick_and_run(requests, all) : Picks{executor->pick(requests)};
      begun = picked.step != 0;
      for (size_t s = 0; s < 2; ++s) texts[s].push_back(picked.picked[s].token);
      picks.insert(picks.end(), picked.picked.begin(), picked.picked.end());
    }
    return picks;
  };
  const auto plain = write(false), ahead = write(true);
  REQUIRE(plain.size() == ahead.size());
  for (size_t i = 0; i < plain.size(); ++i) check_same(ahead[i], plain[i]);
}

}  // namespace skald::test
