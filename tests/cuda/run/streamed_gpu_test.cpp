// Models whose weights lie in the host's memory: each result is that of weights in the GPU's
// memory, to the last bit.
#include <cstring>

#include "cuda/gpu/faults.h"
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

RunOptions with_layers(int layers, int limit = 0) {
  RunOptions options;
  options.gpu_layers = layers;
  options.arch_limit = limit;
  options.prefill_copy = PrefillCopy::Off;
  options.gpu_alone = true;
  options.context = 512;
  return options;
}

// On the GPU a row of quantized experts that is alone in its step has a kernel that cannot read
// experts on the host, so such rows are nearly the same.
enum class LoneRows : uint8_t { SameBits, NearlySame };

void check_same(const Model& model, const std::vector<int32_t>& ids, int limit = 0,
                LoneRows lone_rows = LoneRows::SameBits) {
  const auto resident = cuda::make_executor(model, with_layers(kAllLayers, limit), 0, switches());
  CHECK(resident->plan().host() == 0);
  for (const int layers : {0, 1}) {
    if (layers >= model.config.layers) continue;
    const auto streamed = cuda::make_executor(model, with_layers(layers, limit), 0, switches());
    CHECK(streamed->plan().host() > 0);
    // Few rows change which experts a cache has; many rows find the others on the host.
    for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}, size_t{512}}) {
      CAPTURE(layers, limit, chunk);
      const auto expected = run_text(*resident, ids, chunk),
                 found = run_text(*streamed, ids, chunk);
      REQUIRE(expected.size() == found.size());
      const auto alone = static_cast<int64_t>(ids.size() / chunk * chunk);  // where chunk > 1
      int64_t different = 0;
      for (const auto& [row, values] : expected) {
        const std::vector<float>& other = found.at(row);
        REQUIRE(values.size() == other.size());
        if (lone_rows == LoneRows::NearlySame &&
            (chunk == 1 || (row == alone && alone + 1 == std::ssize(ids)))) {
          CHECK(divergence(softmax(values.data(), values.size()),
                           softmax(other.data(), other.size())) < 1e-3);
          continue;
        }
        different += std::memcmp(values.data(), other.data(), values.size() * sizeof(float)) != 0;
      }
      CHECK(different == 0);
    }
  }
}

std::vector<int32_t> golden_ids(const std::filesystem::path& folder) {
  return read_json(folder / "golden.json")["input_ids"].get<std::vector<int32_t>>();
}

// The mean divergence of predictions with the CPU's help from those of the GPU alone, in steps of
// so many rows.
double divergence_with_help(const Model& model, const std::vector<int32_t>& ids, size_t chunk) {
  RunOptions options = with_layers(0);
  const auto alone = cuda::make_executor(model, options, 0, switches());
  options.gpu_alone = false;
  cuda::Switches all = switches();
  all.cpu_part = cuda::CpuPart::All;
  const auto helped = cuda::make_executor(model, options, 0, all);
  CHECK(helped->plan().cpu > 0);
  const auto expected = run_text(*alone, ids, chunk), found = run_text(*helped, ids, chunk);
  double sum = 0;
  for (const auto& [row, values] : expected) {
    sum += divergence(softmax(values.data(), values.size()),
                      softmax(found.at(row).data(), values.size()));
  }
  return sum / static_cast<double>(expected.size());
}

}  // namespace

TEST_CASE("streamed weights give the logits of weights on the GPU") {
  const std::string name =
      GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "openllama-headdim100", "qwen2-bias-tied",
               "gemma2-softcap", "phi3-fused", "cohere2", "mixtral-moe", "qwen2_moe", "gpt_oss",
               "qwen3_5_moe", "gemma4-dense", "gemma4-ple", "gemma4-moe", "muse_glimmer");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  CAPTURE(name);
  const Model model = open_model(folder).model;
  const LoneRows lone_rows = name == "gpt_oss" ? LoneRows::NearlySame : LoneRows::SameBits;
  for (const int limit : {0, 80, 75}) check_same(model, golden_ids(folder), limit, lone_rows);
}

TEST_CASE("streamed quantized weights give the logits of weights on the GPU, to the last bit") {
  const std::string type = GENERATE("q4_k_m", "q8_0", "q4_0", "iq4_xs");
  const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
  CAPTURE(type);
  const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
  check_same(open_model(gguf).model,
             read_json(stem + ".json")["input_ids"].get<std::vector<int32_t>>());
}

TEST_CASE("many experts are read in place by few rows and copied for many") {
  const Model model = random_llama({.type = DType::BF16, .experts = {32, 2, 512, true, {}}});
  std::vector<int32_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(i * 7 % 90 + 1);
  for (const int limit : {0, 80, 75}) check_same(model, ids, limit);
}

// In float32, because in 16 bits the GPU rounds activations and the CPU does not: then the one or
// the other of two nearly equal experts is chosen.
TEST_CASE("the CPU computes with streamed weights what the GPU would") {
  const std::string name =
      GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "openllama-headdim100", "qwen2-bias-tied",
               "gemma2-softcap", "phi3-fused", "cohere2", "mixtral-moe", "qwen2_moe", "olmoe",
               "gemma4-dense", "gemma4-ple", "gemma4-moe", "muse_glimmer");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  TempFolder temp;
  temp.write("config.json", read_file(folder / "config.json"));
  temp.write("model.safetensors", as_floats(read_file(folder / "model.safetensors")));
  const Model model = open_model(temp.path()).model;
  for (const size_t chunk : {size_t{1}, size_t{4}}) {
    const double mean = divergence_with_help(model, golden_ids(folder), chunk);
    std::printf("%s f32, CPU and GPU, %zu rows: mean KL %.2e\n", name.c_str(), chunk, mean);
    CAPTURE(name, chunk);
    CHECK(mean <= 1e-6);
  }
}

TEST_CASE("the CPU computes with the blocks of a GGUF what the GPU computes with its tiles") {
  const std::string type = GENERATE("q4_k_m", "q8_0", "q4_0", "q6_k");
  const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
  const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
  const auto ids = read_json(stem + ".json")["input_ids"].get<std::vector<int32_t>>();
  for (const size_t chunk : {size_t{1}, size_t{4}}) {
    const double mean = divergence_with_help(open_model(gguf).model, ids, chunk);
    std::printf("kq256 %s, CPU and GPU, %zu rows: mean KL %.2e\n", type.c_str(), chunk, mean);
    CHECK(mean <= 1e-3);
    CHECK(mean > 0);  // the CPU rounds activations in another way
  }
}

// With 16 of 32 experts of each layer in a cache.
TEST_CASE("the CPU computes some of the chosen experts that a cache does not have") {
  for (const int used : {1, 2, 6}) {
    const Model model = random_llama({.type = DType::BF16, .experts = {32, used, 512, true, {}}});
    std::vector<int32_t> ids;
    for (int i = 0; i < 100; ++i) ids.push_back(i * 7 % 90 + 1);
    RunOptions options = with_layers(1);
    const auto alone = cuda::make_executor(model, options, 0, switches());
    options.gpu_alone = false;
    for (const cuda::CpuPart part : {cuda::CpuPart::All, cuda::CpuPart::AsLink}) {
      const bool cpu_takes_all = part == cuda::CpuPart::All;
      cuda::Switches set = switches();
      set.cpu_part = part;
      const auto helped = cuda::make_executor(model, options, 0, set);
      REQUIRE(helped->plan().cpu > 0);
      for (const size_t chunk : {size_t{1}, size_t{4}, size_t{100}}) {
        CAPTURE(used, cpu_takes_all, chunk);
        const auto expected = run_text(*alone, ids, chunk), found = run_text(*helped, ids, chunk);
        double sum = 0;
        for (const auto& [row, values] : expected) {
          sum += divergence(softmax(values.data(), values.size()),
                            softmax(found.at(row).data(), values.size()));
        }
        const double mean = sum / static_cast<double>(ids.size());
        std::printf("%d of 32 experts, chunk %zu, CPU takes all %d: mean KL %.2e\n", used, chunk,
                    cpu_takes_all, mean);
        CHECK(mean <= 1e-2);
      }
      const ExpertUse use = helped->expert_use();
      std::printf("found %ld, copied %ld, others %ld\n", static_cast<long>(use.found),
                  static_cast<long>(use.copied), static_cast<long>(use.others));
      CHECK(use.found > 0);
      // A single missing expert is always copied.
      CHECK((use.others > 0 || (used == 1 && !cpu_takes_all)));
      CHECK((use.copied == 0) == cpu_takes_all);
    }
    const ExpertUse use = alone->expert_use();
    CHECK(use.found > 0);
    CHECK(use.copied > 0);
    CHECK((use.others == 0) ==
          (4 * used <= 16));  // if slots are few, kernels read some on the host
  }
}

TEST_CASE("a cache of one expert serves steps that choose several") {
  const Model model =
      random_llama({.type = DType::BF16, .layers = 8, .experts = {8, 2, 512, true, {}}});
  std::vector<int32_t> ids;
  for (int i = 0; i < 60; ++i) ids.push_back(i * 11 % 90 + 1);
  const auto resident = cuda::make_executor(model, with_layers(kAllLayers), 0, switches());
  const auto streamed = cuda::make_executor(model, with_layers(1), 0, switches());
  for (const size_t chunk : {size_t{1}, size_t{3}}) {
    CHECK(run_text(*resident, ids, chunk) == run_text(*streamed, ids, chunk));
  }
  const ExpertUse use = streamed->expert_use();
  CHECK(use.copied > 0);
  CHECK(use.others > 0);  // the GPU reads them on the host
}

TEST_CASE("a small streamed model, with and without the CPU", "[small][cublas]") {
  const Model model =
      random_llama({.type = DType::BF16, .experts = {8, 2, 512, true, {true, false}}});
  const std::vector<int32_t> ids = {1, 5, 9, 12, 3, 7, 20, 33, 4};
  CHECK(divergence_with_help(model, ids, 3) <= 0.1);
}

TEST_CASE("without page-locked memory, streamed weights lie in ordinary memory") {
  const std::filesystem::path folder = find_golden("llama3-gqa-tied-ropescale");
  const Model model = open_model(folder).model;
  const auto locked = cuda::make_executor(model, with_layers(0), 0, switches());
  CHECK(locked->plan().unlocked == 0);
  CHECK(locked->plan().link > 0);
  int tried = 0;
  for (int n = 1; n < 200; ++n) {
    cuda::FailingAcquisition failing(n);
    std::unique_ptr<Executor> executor;
    try {
      executor = cuda::make_executor(model, with_layers(0), 0, switches());
    } catch (const Error&) {
      continue;  // this acquisition was no page-locked memory of a layer
    }
    if (!failing.happened()) break;
    if (executor->plan().unlocked == 0) continue;
    ++tried;
    const std::vector<int32_t> ids = golden_ids(folder);
    CHECK(run_text(*executor, ids, 7) == run_text(*locked, ids, 7));
  }
  CHECK(tried > 0);
}

TEST_CASE("a step that fails between two copies, or two ops on the CPU, is repeated with all") {
  const std::filesystem::path folder = find_golden("llama3-gqa-tied-ropescale");
  RunOptions options = with_layers(0);
  options.gpu_alone = GENERATE(true, false);
  cuda::Switches all = switches();
  all.cpu_part = cuda::CpuPart::All;
  const auto executor = cuda::make_executor(open_model(folder).model, options, 0, all);
  const std::vector<int32_t> ids = golden_ids(folder);
  const auto expected = run_text(*executor, ids, 3);
  // An observer ends a step wherever it throws, as a failed launch would.
  for (int seen = 0; seen < 6; ++seen) {
    int left = seen;
    executor->observe([&left](const OpOutput&) {
      if (left-- == 0) fail(Exit::Failed, "a test");
    });
    CHECK_THROWS_AS(run_text(*executor, ids, 3), Error);
    executor->observe({});
    CHECK(run_text(*executor, ids, 3) == expected);
  }
}

}  // namespace skald::test
