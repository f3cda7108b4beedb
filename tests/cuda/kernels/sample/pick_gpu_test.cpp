// Executor::pick() on the GPU, compared with the CPU's sampler on the logits of the same executor.
#include <algorithm>
#include <vector>

#include "cuda/cuda.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

const char* const kModel = "llama3-gqa-tied-ropescale";

std::vector<int32_t> golden_ids() {
  return read_json(find_golden(kModel) / "golden.json")["input_ids"].get<std::vector<int32_t>>();
}

void check_same(const Picked& picked, const Picked& expected) {
  REQUIRE(picked.token == expected.token);
  REQUIRE(picked.logprob == expected.logprob);
  REQUIRE(picked.top == expected.top);
}

}  // namespace

TEST_CASE("tokens sampled on the GPU are those that the CPU samples from its logits") {
  const OpenedModel opened = open_model(find_golden(kModel));
  const auto executor = cuda::make_executor(opened.model, {}, 0);
  SamplingParams params;
  params.seed = 11;
  SECTION("by the defaults") {}
  SECTION("from the whole vocabulary, with penalties") {
    params.top_k = 0, params.top_p = 1, params.min_p = 0;
    params.repeat_penalty = 1.2f, params.frequency_penalty = 0.05f;
    params.top_logprobs = 5;
  }
  SECTION("with settings that the device leaves to the CPU") { params.typical_p = 0.8f; }
  Sampler sampler;
  Sequence sequence = executor->new_sequence();
  std::vector<int32_t> text = {1, 5, 9};
  std::vector<int32_t> pending = text;
  int not_best = 0;
  for (int i = 0; i < 200; ++i) {
    const SeqRows rows{&sequence, pending, Want::LastRow};
    REQUIRE(executor->run({&rows, 1}) == 1);
    const PickRequest request{&params, {4, static_cast<int64_t>(text.size()), text}};
    const Picked picked = executor->pick({&request, 1}).front();
    const auto logits = executor->logits(0);
    check_same(picked, sampler.pick(logits, params, request.context));
    not_best +=
        logits[static_cast<size_t>(picked.token)] < *std::max_element(logits.begin(), logits.end());
    text.push_back(picked.token);
    pending = {picked.token};
  }
  CHECK(not_best > 20);  // it was not greedy
}

TEST_CASE("all rows of a long step are picked on the GPU, some of them on the CPU") {
  const OpenedModel opened = open_model(find_golden(kModel));
  const auto executor = cuda::make_executor(opened.model, {}, 0);
  std::vector<int32_t> ids;
  while (ids.size() < 150) {  // more rows than logits are computed for at a time
    const std::vector<int32_t> more = golden_ids();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  ids.resize(150);
  Sequence sequence = executor->new_sequence();
  const SeqRows rows{&sequence, ids, Want::EveryRow};
  REQUIRE(executor->run({&rows, 1}) == 150);
  SamplingParams often, seldom;
  seldom.typical_p = 0.9f;
  std::vector<PickRequest> requests;
  for (int64_t i = 0; i < 150; ++i) requests.push_back({i % 7 ? &often : &seldom, {0, i, {}}});
  const std::vector<Picked> picked = executor->pick(requests);
  REQUIRE(picked.size() == 150);
  Sampler sampler;
  for (size_t i = 0; i < 150; ++i) {
    const auto logits = executor->logits(static_cast<int64_t>(i));
    check_same(picked[i], sampler.pick(logits, *requests[i].params, requests[i].context));
  }
}

TEST_CASE("rows of a decode step are picked each by its own settings") {
  const OpenedModel opened = open_model(find_golden(kModel));
  RunOptions options;
  options.sequences = 80;
  const auto executor = cuda::make_executor(opened.model, options, 0);
  const std::vector<int32_t> ids = golden_ids();
  std::vector<Sequence> sequences;
  for (size_t s = 0; s < 80; ++s) sequences.push_back(executor->new_sequence());
  std::vector<SamplingParams> params(80);
  for (size_t s = 0; s < 80; ++s) {
    params[s].temperature = 0.02f * static_cast<float>(s);
    params[s].top_k = static_cast<int>(s % 9);
    params[s].top_logprobs = static_cast<int>(s % 4);
  }
  Sampler sampler;
  for (size_t at = 0; at < 4; ++at) {  // the third step is the first that runs as a graph
    std::vector<SeqRows> step;
    std::vector<PickRequest> requests;
    for (size_t s = 0; s < 80; ++s) {
      const size_t token = (s + at) % ids.size();
      step.push_back({&sequences[s], std::span(ids).subspan(token, 1), Want::LastRow});
      requests.push_back({&params[s], {s, static_cast<int64_t>(at), {}}});
    }
    REQUIRE(executor->run(step) == 80);
    const std::vector<Picked> picked = executor->pick(requests);
    for (size_t s = 0; s < 80; ++s) {
      const auto logits = executor->logits(static_cast<int64_t>(s));
      check_same(picked[s], sampler.pick(logits, params[s], requests[s].context));
    }
  }
}

}  // namespace skald::test
