// A group of two ranks on two GPUs. On one GPU they could wait for each other forever: the kernels
// of a rank may leave no room for those of the other, or keep the driver from loading them.
#include "cuda/gpu/faults.h"
#include "engine/program/shard.h"
#include "models/open.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

const std::vector<int> kGpus = {0, 1};

// False where the machine has one GPU; the test then says so and ends.
bool have_two_gpus() {
  const bool two = cuda::look_at_system().devices > 1;
  if (!two) WARN("skipped: needs two GPUs");
  return two;
}

std::unique_ptr<Executor> group_of(const Model& model, const RunOptions& options,
                                   bool mail_on_host = false) {
  cuda::Switches own = switches();
  own.mail_on_host = mail_on_host;
  return cuda::make_group(model, options, kGpus, own);
}

// The logits of all tokens, one row after the other; each step has `chunk` tokens.
std::vector<float> logits_of(Executor& executor, const std::vector<int32_t>& ids, size_t chunk) {
  std::vector<float> all;
  for (const auto& [row, values] : run_text(executor, ids, chunk)) {
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_CASE("golden models computed by two ranks in float32 predict what Hugging Face predicts") {
  if (!have_two_gpus()) return;
  const std::string name = GENERATE(
      "llama3-gqa-tied-ropescale", "openllama-headdim100", "llama-bias-linear-rope", "qwen3-qknorm",
      "gemma2-softcap", "phi3-fused", "cohere2", "granite4", "exaone4", "starcoder2", "mixtral-moe",
      "qwen2_moe", "gpt_oss-bf16", "glm4_moe", "lfm2", "qwen3_5", "qwen3_5_moe", "gemma4-dense",
      "gemma4-moe", "gemma4-ple", "granite4-hybrid", "nemotron_h");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  TempFolder temp;
  temp.write("config.json", read_file(folder / "config.json"));
  temp.write("model.safetensors", as_floats(read_file(folder / "model.safetensors")));
  const auto group = group_of(open_model(temp.path()).model, {});
  check_golden(*group, read_json(folder / "golden.json"), read_npy(folder / "logits.npy"), true,
               name + " f32, 2 ranks");
}

TEST_CASE("golden models computed by two ranks in 16 bits predict what Hugging Face predicts") {
  if (!have_two_gpus()) return;
  const std::string name = GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "qwen2-bias-tied",
                                    "qwen3-qknorm", "granite4", "mistral-swa-headdim64");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const bool mail_on_host = GENERATE(false, true);
  CAPTURE(mail_on_host);
  const auto group = group_of(open_model(folder).model, {}, mail_on_host);
  const nlohmann::json golden = read_json(folder / "golden.json");
  check_golden(*group, golden, read_npy(folder / "logits.npy"), golden["weights_dtype"] == "fp32",
               name + ", 2 ranks");
}

TEST_CASE("two ranks give the same logits each time, and nearly those of one GPU") {
  if (!have_two_gpus()) return;
  const DType type = GENERATE(DType::BF16, DType::Q8_0, DType::Q4_K);
  RandomLlama shape = {.type = type, .heads = 8, .kv_heads = 2, .head_dim = 64};
  shape.ffn_dim = 1024;
  const Model model = random_llama(shape);
  Model half = model;
  half.shard = {0, 2};
  REQUIRE(count_all_reduces(half.program()) == 4);
  const std::vector<int32_t> ids = random_tokens(300, 11);
  const auto alone = cuda::make_executor(model, {}, 0, switches());
  const auto group = group_of(model, {}), other = group_of(model, {});
  for (const size_t chunk : {size_t{300}, size_t{7}, size_t{1}}) {
    CAPTURE(name(type), chunk);
    const std::vector<float> one = logits_of(*alone, ids, chunk),
                             two = logits_of(*group, ids, chunk);
    CHECK(two == logits_of(*group, ids, chunk));
    CHECK(two == logits_of(*other, ids, chunk));
    const size_t vocab = static_cast<size_t>(model.config.vocab);
    double kl = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      kl += divergence(softmax(one.data() + row * vocab, vocab),
                       softmax(two.data() + row * vocab, vocab));
    }
    CHECK(kl / static_cast<double>(ids.size()) < 1e-3);
  }
}

TEST_CASE("long steps of a group give the logits of short ones") {
  if (!have_two_gpus()) return;
  RandomLlama shape = {.heads = 4, .kv_heads = 2, .head_dim = 64, .dim = 1024};
  shape.type = DType::BF16;
  shape.context = 4096;
  const Model model = random_llama(shape);
  RunOptions options;
  options.rows = 2048;  // 2 M numbers
  const std::vector<int32_t> ids = random_tokens(2048, 3);
  const auto group = group_of(model, options);
  const std::vector<float> whole = logits_of(*group, ids, 2048);
  CHECK(whole == logits_of(*group, ids, 2048));
  const std::vector<float> parts = logits_of(*group, ids, 64);
  const size_t vocab = static_cast<size_t>(model.config.vocab), last = ids.size() - 1;
  CHECK(divergence(softmax(whole.data() + last * vocab, vocab),
                   softmax(parts.data() + last * vocab, vocab)) < 1e-3);
}

TEST_CASE("a step of a group is repeated where one rank has no memory") {
  if (!have_two_gpus()) return;
  const Model model = random_llama({.type = DType::BF16});
  const std::vector<int32_t> ids = random_tokens(40, 2);
  // The second step of one row is captured as a graph. The other rank has begun its part by then.
  std::vector<std::vector<float>> expected, found;
  for (const bool disturbed : {false, true}) {
    const auto group = group_of(model, {});
    Sequence sequence = group->new_sequence();
    for (size_t at = 0; at < 20; ++at) {
      const cuda::FailingAcquisition failing(disturbed && at == 1 ? 1 : 0);
      const SeqRows rows{&sequence, std::span(ids).subspan(at, 1), Want::LastRow};
      group->run({&rows, 1});
      CHECK(failing.happened() == (disturbed && at == 1));
      const auto logits = group->logits(0);
      (disturbed ? found : expected).emplace_back(logits.begin(), logits.end());
    }
  }
  CHECK(found == expected);
}

TEST_CASE("a group picks its next tokens ahead, as one GPU does") {
  if (!have_two_gpus()) return;
  const Model model = random_llama({.type = DType::F32});
  const auto alone = cuda::make_executor(model, {}, 0, switches());
  const auto group = group_of(model, {});
  const std::vector<int32_t> prompt = random_tokens(20, 4);
  CHECK(continue_text(*group, prompt, 60) == continue_text(*alone, prompt, 60));
  const auto sampled = [&](Executor& executor) {
    Session session(executor, SamplingParams{.temperature = 0.8f, .seed = 5});
    session.feed(prompt);
    std::vector<int32_t> ids;
    while (ids.size() < 60) ids.push_back(session.next().token);
    return ids;
  };
  CHECK(sampled(*group) == sampled(*alone));
}

}  // namespace
}  // namespace skald::test
