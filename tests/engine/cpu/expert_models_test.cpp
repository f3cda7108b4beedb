// Models with experts on the CPU: chunks and neighbours, the bytes of a token, the memory plan.
#include "engine/cpu/executor.h"
#include "engine/cpu/plan.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {

TEST_CASE("a model with experts has the same logits in any chunks and beside any other sequences") {
  const auto logits = [](Executor& executor, int64_t row) {
    const auto all = executor.logits(row);
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<int32_t> prompt = random_tokens(70, 1);
  for (const DType type : {DType::F16, DType::Q4_0}) {
    const Model model = random_llama({.type = type, .experts = {8, 2, 256, true, {false, true}}});
    CHECK(op_name(model.program().ops[11]) == "experts");
    const auto executor = cpu::make_executor(model, {.sequences = 9, .rows = 100, .threads = 2});
    std::vector<float> whole;
    for (const size_t chunk : {70, 1, 7, 64}) {
      CAPTURE(name(type), chunk);
      Sequence sequence = executor->new_sequence();
      for (size_t at = 0; at < prompt.size(); at += chunk) {
        const auto part = std::span(prompt).subspan(at, std::min(chunk, prompt.size() - at));
        const SeqRows step{&sequence, part, Want::LastRow};
        executor->run({&step, 1});
      }
      const std::vector<float> last = logits(*executor, 0);
      if (whole.empty()) whole = last;
      CHECK(last == whole);
    }
    std::vector<Sequence> sequences;
    std::vector<SeqRows> step;
    sequences.reserve(8);
    step.reserve(8);
    for (int s = 0; s < 8; ++s) sequences.push_back(executor->new_sequence());
    const std::vector<int32_t> other = random_tokens(4, 3);
    for (Sequence& sequence : sequences) step.push_back({&sequence, other, Want::Nothing});
    step[3] = {&sequences[3], prompt, Want::LastRow};
    executor->run(step);
    CHECK(logits(*executor, 0) == whole);
  }
}

TEST_CASE("the bytes read in a decode step count the experts of one token") {
  const Model model = random_llama({.layers = 1, .experts = {8, 3, 64, true, {}}});
  const auto bytes = [&](const char* tensor) { return model.weights->find(tensor)->view.bytes(); };
  const int64_t stacks = bytes("blk.0.ffn_gate_exps.weight") + bytes("blk.0.ffn_up_exps.weight") +
                         bytes("blk.0.ffn_down_exps.weight");
  const int64_t all = model.weights->bytes() - bytes("token_embd.weight") + 256 * 4;
  CHECK(model.program().weight_bytes() == all - stacks / 8 * 5);
}

TEST_CASE("the memory plan counts the rows of experts, several for each token") {
  const auto workspace = [](const ExpertsConfig& experts) {
    const Model model = random_llama({.experts = experts});
    RunOptions options;
    options.threads = 1;
    for (const MemoryPart& part : cpu::plan_memory(model, options).parts) {
      if (part.name == "workspace") return part.bytes;
    }
    return int64_t{0};
  };
  const int64_t dense = workspace({}), some = workspace({8, 2, 512, true, {}});
  CHECK(some > dense + 512 * (256 + 2 * 512) * 4);
  CHECK(some < 2 * (dense + 512 * (256 + 2 * 512) * 4));
}

}  // namespace skald::test
