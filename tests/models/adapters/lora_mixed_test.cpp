// Sequences with different adapters in one step.
#include "engine/schedule/scheduler.h"
#include "models/fingerprint.h"
#include "tests/catch.h"
#include "tests/models/adapters/adapter_files.h"

namespace skald::test {
namespace {

// The first adapter changes nothing.
OpenedModel with_choice(const fs::path& folder) {
  OpenedModel opened = open_model(folder);
  const auto adapters = std::make_shared<Adapters>(1);
  adapters->push_back(load_adapter(opened, "all", std::vector<LoraUse>{{lora("all")}}));
  adapters->push_back(load_adapter(opened, "rslora", std::vector<LoraUse>{{lora("rslora")}}));
  opened.model.adapters = adapters;
  return opened;
}

std::vector<float> last_logits(Executor& executor, std::span<const int> adapters) {
  const std::vector<int32_t> ids = lora_ids();
  std::vector<Sequence> sequences;
  for (const int adapter : adapters) sequences.push_back(executor.new_sequence(adapter));
  std::vector<SeqRows> step;
  for (Sequence& sequence : sequences) step.push_back({&sequence, ids, Want::LastRow});
  executor.run(step);
  std::vector<float> all;
  for (int64_t row = 0; row < std::ssize(step); ++row) {
    const std::span<const float> logits = executor.logits(row);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST_CASE("adapters of one step change their own sequences alone, to the last bit") {
  TempFolder temp;
  const OpenedModel opened = with_choice(write_folder(temp, "nemo"));
  const auto executor = cpu::make_executor(opened.model, {.sequences = 6, .threads = 1});
  const std::vector<int> order{2, 0, 0, 1, 2, 1};
  const std::vector<float> together = last_logits(*executor, order);
  const auto vocab = static_cast<size_t>(opened.model.config.vocab);
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<float> alone = last_logits(*executor, std::span(order).subspan(i, 1));
    const auto row = together.begin() + static_cast<std::ptrdiff_t>(i * vocab);
    CHECK(std::equal(alone.begin(), alone.end(), row));
  }
  // Without an adapter, a sequence is that of the plain model.
  const auto plain = cpu::make_executor(open_model(write_folder(temp, "nemo")).model,
                                        {.sequences = 6, .threads = 1});
  const std::vector<int> none{0};
  CHECK(last_logits(*plain, none) == last_logits(*executor, none));
  const std::vector<int> first{1}, second{2};
  CHECK(last_logits(*executor, first) != last_logits(*executor, second));
}

std::vector<int32_t> new_tokens(Scheduler& scheduler, std::span<Generation* const> generations) {
  for (Generation* generation : generations) scheduler.add(*generation);
  std::map<const Generation*, std::vector<int32_t>> tokens;
  while (!scheduler.idle()) {
    for (const GenerationEvent& event : scheduler.step()) {
      if (event.kind == GenerationEvent::Kind::Token) {
        tokens[event.generation].push_back(event.picked.token);
      }
    }
  }
  std::vector<int32_t> all;
  for (Generation* generation : generations) {
    all.insert(all.end(), tokens[generation].begin(), tokens[generation].end());
  }
  return all;
}

TEST_CASE("prompts of different adapters share no pages") {
  TempFolder temp;
  const OpenedModel opened = with_choice(write_folder(temp, "nemo"));
  const auto executor = cpu::make_executor(opened.model, {.sequences = 4, .threads = 1});
  std::vector<Generation> generations(6);
  std::vector<std::vector<int32_t>> alone;
  for (size_t i = 0; i < generations.size(); ++i) {
    Generation& generation = generations[i];
    for (int32_t t = 0; t < 70; ++t) generation.prompt.push_back(1 + t * 7 % 47);
    generation.streams = {0};
    generation.max_tokens = 8;
    generation.params.temperature = 0;
    generation.adapter = static_cast<int>(i) % 3;
    Scheduler scheduler(*executor, {.sequences = 4});
    std::vector<Generation*> one{&generation};
    alone.push_back(new_tokens(scheduler, one));
  }
  CHECK(alone[0] != alone[1]);
  CHECK(alone[1] != alone[2]);
  std::vector<Generation*> pointers;
  std::vector<int32_t> expected;
  for (size_t i = 0; i < generations.size(); ++i) {
    pointers.push_back(&generations[i]);
    expected.insert(expected.end(), alone[i].begin(), alone[i].end());
  }
  Scheduler scheduler(*executor, {.sequences = 4});
  CHECK(new_tokens(scheduler, pointers) == expected);
  // The second prompt of an adapter has the first page of the first one, and of no other.
  CHECK(scheduler.counts().shared_tokens == 3 * kPageTokens);
}

TEST_CASE("a program with adapters keeps products of one buffer together") {
  TempFolder temp;
  const Program program = with_choice(write_folder(temp, "nemo")).model.program();
  std::vector<std::string> names;
  for (size_t i = 2; i < 10; ++i) names.emplace_back(op_name(program.ops[i]));
  CHECK(names == std::vector<std::string>{"linear", "linear", "linear", "delta", "delta", "delta",
                                          "rope", "rope"});
  CHECK(program.adapters == 3);
  // Only `all` changes keys, and the first adapter changes nothing.
  const auto& keys = std::get<Delta>(program.ops[6]);
  const AdaptedMatrix& matrix = program.adapted[static_cast<size_t>(keys.matrix)];
  CHECK(matrix.down[0] == WeightId::None);
  CHECK(program.weight(matrix.up[1]).name == "blk.0.attn_k.weight.lora_b[1]");
  CHECK(matrix.up[2] == WeightId::None);
}

TEST_CASE("adapters are a part of a model's hash, and of its plan") {
  TempFolder temp;
  const OpenedModel plain = open_model(write_folder(temp, "nemo"));
  OpenedModel opened = with_adapter(plain, {{lora("all")}});
  CHECK(model_hash(opened) != model_hash(plain));
  CHECK(model_hash(opened) == model_hash(with_adapter(plain, {{lora("all"), 1}})));
  CHECK(model_hash(opened) != model_hash(with_adapter(plain, {{lora("all"), 0.5f}})));
  CHECK(model_hash(opened) != model_hash(with_choice(plain.path)));
  const auto bytes = [](const Model& model, std::string_view name) {
    int64_t found = 0;
    for (const MemoryPart& part : cpu::plan_memory(model, RunOptions{}).parts) {
      if (part.name == name) found = part.bytes;
    }
    return found;
  };
  CHECK(bytes(opened.model, "adapters") == bytes_of(*opened.model.adapters));
  CHECK(bytes(plain.model, "adapters") == 0);
  CHECK(opened.model.program().weight_bytes() ==
        plain.model.program().weight_bytes() + bytes_of(*opened.model.adapters));
}

}  // namespace
}  // namespace skald::test
