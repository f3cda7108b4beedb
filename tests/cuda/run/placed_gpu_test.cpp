// Weights that rules of the user place, and kinds of the host's memory: each result is that of
// weights in the GPU's memory, to the last bit.
#include <cstring>

#include "cuda/gpu/faults.h"
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

RunOptions placed_options() {
  RunOptions options;
  options.prefill_copy = PrefillCopy::Off;
  options.gpu_alone = true;
  options.context = 512;
  return options;
}

struct PlacedText {
  const Model& model;
  std::vector<int32_t> ids;

  std::unique_ptr<Executor> resident(int limit = 0) const {
    RunOptions options = placed_options();
    options.gpu_layers = kAllLayers;
    options.arch_limit = limit;
    return cuda::make_executor(model, options, 0, switches());
  }
  std::unique_ptr<Executor> placed(const RunOptions& options) const {
    return cuda::make_executor(model, options, 0, switches());
  }

  // Rows whose logits differ, in prompts, in steps of a few rows and in decode.
  int64_t different(Executor& a, Executor& b) const {
    int64_t different = 0;
    for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}}) {
      const auto expected = run_text(a, ids, chunk), found = run_text(b, ids, chunk);
      REQUIRE(expected.size() == found.size());
      for (const auto& [row, values] : expected) {
        const std::vector<float>& other = found.at(row);
        different += values.size() != other.size() ||
                     std::memcmp(values.data(), other.data(), values.size() * sizeof(float)) != 0;
      }
    }
    return different;
  }
};

// Matches every tensor whose name has `part`.
std::vector<WeightRule> rule(const std::string& part, WeightPlace place) {
  const auto matches = [part](std::string_view tensor) { return tensor.find(part) != tensor.npos; };
  return {{"a rule", place, matches}};
}

// The places and kinds that a model can have; without experts, rules name products.
std::vector<std::pair<std::string, RunOptions>> all_placements(bool experts) {
  std::vector<std::pair<std::string, RunOptions>> all;
  const std::string some = experts ? "_exps" : "ffn_down";
  for (const auto& [part, place] :
       {std::pair(std::string(), WeightPlace::Stream), std::pair(std::string(), WeightPlace::Cpu),
        std::pair(some, WeightPlace::Stream), std::pair(std::string("attn_q"), WeightPlace::Cpu)}) {
    for (const HostMemoryKind kind :
         {HostMemoryKind::Auto, HostMemoryKind::Pageable, HostMemoryKind::Mapped}) {
      RunOptions options = placed_options();
      options.weight_rules = rule(part, place);
      options.host_memory = kind;
      all.emplace_back(concat("'", part, "', kind ", static_cast<int>(kind)), options);
    }
  }
  RunOptions none = placed_options();
  none.gpu_layers = 0;
  for (const HostMemoryKind kind :
       {HostMemoryKind::Pinned, HostMemoryKind::Pageable, HostMemoryKind::Mapped}) {
    none.host_memory = kind;
    all.emplace_back(concat("no layers, kind ", static_cast<int>(kind)), none);
  }
  return all;
}

void check_placements(const Model& model, const std::vector<int32_t>& ids) {
  const PlacedText text{model, ids};
  const bool experts = model.config.experts.count > 0;
  for (const int limit : {0, 75}) {
    const auto resident = text.resident(limit);
    for (auto [name, options] : all_placements(experts)) {
      CAPTURE(name, limit);
      options.arch_limit = limit;
      const auto placed = text.placed(options);
      const MemoryPlan& plan = placed->plan();
      CHECK(plan.host() > 0);
      CHECK(plan.copy_link > 0);
      CHECK((plan.unlocked > 0) == (options.host_memory == HostMemoryKind::Pageable));
      CHECK(text.different(*resident, *placed) == 0);
    }
  }
}

std::vector<int32_t> ids_of(const std::filesystem::path& json) {
  return read_json(json)["input_ids"].get<std::vector<int32_t>>();
}

}  // namespace

TEST_CASE("wherever weights lie, logits are those of weights on the GPU, to the last bit") {
  const std::string name = GENERATE("llama-mha", "openllama-headdim100", "qwen2-bias-tied",
                                    "mixtral-moe", "qwen2_moe", "gemma4-ple");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  CAPTURE(name);
  check_placements(open_model(folder).model, ids_of(folder / "golden.json"));
}

TEST_CASE("wherever quantized weights lie, logits are those of weights on the GPU") {
  const std::string type = GENERATE("q4_k_m", "q8_0");
  const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
  CAPTURE(type);
  check_placements(open_model(gguf).model,
                   ids_of(gguf.parent_path() / ("kq256." + type + ".json")));
}

TEST_CASE("many experts in memory of every kind") {
  const Model model = random_llama({.type = DType::BF16, .experts = {32, 2, 512, true, {}}});
  std::vector<int32_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(i * 7 % 90 + 1);
  check_placements(model, ids);
}

TEST_CASE("a small model with mapped and pageable weights", "[small][cublas]") {
  const Model model =
      random_llama({.type = DType::BF16, .experts = {8, 2, 512, true, {true, false}}});
  const PlacedText text{model, {1, 5, 9, 12, 3, 7, 20, 33, 4}};
  const auto resident = text.resident();
  RunOptions options = placed_options();
  options.weight_rules = rule("", WeightPlace::Stream);
  for (const HostMemoryKind kind : {HostMemoryKind::Mapped, HostMemoryKind::Pageable}) {
    options.host_memory = kind;
    CHECK(text.different(*resident, *text.placed(options)) == 0);
  }
}

TEST_CASE("a rule gives ops to the CPU, also from mapped memory, and takes others from it") {
  const std::filesystem::path folder = find_golden("llama3-gqa-tied-ropescale");
  const Model model = open_model(folder).model;
  const PlacedText text{model, ids_of(folder / "golden.json")};
  const auto resident = text.resident();
  RunOptions options = placed_options();
  options.gpu_alone = false;
  for (const HostMemoryKind kind : {HostMemoryKind::Auto, HostMemoryKind::Mapped}) {
    options.host_memory = kind;
    options.weight_rules = rule("ffn_down", WeightPlace::Cpu);
    const auto helped = text.placed(options);
    CHECK(helped->plan().cpu > 0);
    CHECK(helped->plan().cpu_share == 1);
    const auto expected = run_text(*resident, text.ids, 1), found = run_text(*helped, text.ids, 1);
    double sum = 0;
    for (const auto& [row, values] : expected) {
      sum += divergence(softmax(values.data(), values.size()),
                        softmax(found.at(row).data(), values.size()));
    }
    CHECK(sum / static_cast<double>(expected.size()) <= 1e-2);
    options.weight_rules = rule("ffn_down", WeightPlace::Stream);
    CHECK(text.placed(options)->plan().cpu == 0);
  }
  // The CPU does not compute beside copies that let it wait.
  options.host_memory = HostMemoryKind::Pageable;
  options.weight_rules = rule("ffn_down", WeightPlace::Cpu);
  CHECK(text.placed(options)->plan().cpu == 0);
}

TEST_CASE("pinned and mapped weights are refused where the machine locks no memory") {
  const std::filesystem::path folder = find_golden("llama3-gqa-tied-ropescale");
  const Model model = open_model(folder).model;
  const PlacedText text{model, ids_of(folder / "golden.json")};
  for (const HostMemoryKind kind : {HostMemoryKind::Pinned, HostMemoryKind::Mapped}) {
    RunOptions options = placed_options();
    options.gpu_layers = 0;
    options.host_memory = kind;
    int refused = 0;
    for (int n = 1; n < 200; ++n) {
      cuda::FailingAcquisition failing(n);
      std::string message;
      try {
        text.placed(options);
      } catch (const Error& error) {
        message = error.what();
      }
      if (!failing.happened()) break;
      refused += has(message, "no page-locked memory for weights");
    }
    CHECK(refused > 0);
  }
}

}  // namespace skald::test
